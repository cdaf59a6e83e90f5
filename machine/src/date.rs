//! Dates of the civil calendar, in Universal Time.
//!
//! *Interface*: [`Date::at`] is the date of a second since 1970, [`Date::seconds`] the way back;
//! [`Date::is_valid`], [`Date::weekday`], [`Date::day_of_year`].
//!
//! The days are counted in years that begin in March, so that a leap day is a year's last (H. Hinnant,
//! "chrono-compatible low-level date algorithms").

/// Seconds of a day.
const DAY: u64 = 86_400;
/// Days from March of the year 0 to 1970.
const BEFORE_1970: u64 = 719_468;
/// Days of 400 years.
const ERA: u64 = 146_097;

/// A date from 1970 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// The year.
    pub year: u32,
    /// From 1 on.
    pub month: u32,
    /// Of the month, from 1 on.
    pub day: u32,
    /// Of the day, below 24.
    pub hour: u32,
    /// Below 60.
    pub minute: u32,
    /// Below 60.
    pub second: u32,
}

/// Days of a month.
fn days_of(year: u32, month: u32) -> u32 {
    let leaps = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    match month {
        2 => 28 + u32::from(leaps),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Date {
    /// The date of a second since 1970; None behind the year 9999.
    pub fn at(seconds: u64) -> Option<Date> {
        let (days, left) = (seconds / DAY, (seconds % DAY) as u32);
        let days = days.checked_add(BEFORE_1970)?;
        let (era, day) = (days / ERA, (days % ERA) as u32);
        let of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * of_era + of_era / 4 - of_era / 100);
        let march = (5 * day + 2) / 153;
        let month = if march < 10 { march + 3 } else { march - 9 };
        let year = era * 400 + u64::from(of_era) + u64::from(month <= 2);
        Some(Date {
            year: u32::try_from(year).ok().filter(|&year| year <= 9999)?,
            month,
            day: day - (153 * march + 2) / 5 + 1,
            hour: left / 3600,
            minute: left / 60 % 60,
            second: left % 60,
        })
    }

    /// Whether there is such a date, from 1970 to 9999.
    pub fn is_valid(self) -> bool {
        (1970..=9999).contains(&self.year)
            && (1..=12).contains(&self.month)
            && (1..=days_of(self.year, self.month)).contains(&self.day)
            && self.hour < 24
            && self.minute < 60
            && self.second < 60
    }

    /// Days from March of the year 0.
    fn days(self) -> u64 {
        let year = u64::from(self.year) - u64::from(self.month <= 2);
        let march = (u64::from(self.month) + 9) % 12;
        let day_of_year = (153 * march + 2) / 5 + u64::from(self.day) - 1;
        year * 365 + year / 4 - year / 100 + year / 400 + day_of_year
    }

    /// Seconds since 1970; None for one that is not valid.
    pub fn seconds(self) -> Option<u64> {
        let valid = self.is_valid().then_some(self)?;
        let hours = (valid.days() - BEFORE_1970) * 24 + u64::from(valid.hour);
        Some((hours * 60 + u64::from(valid.minute)) * 60 + u64::from(valid.second))
    }

    /// Days since Sunday, of a valid date.
    pub fn weekday(self) -> u32 {
        // 1970 began on a Thursday.
        ((self.days() - BEFORE_1970 + 4) % 7) as u32
    }

    /// Days since the first of January, of a valid date.
    pub fn day_of_year(self) -> u32 {
        let months = (1..self.month).map(|month| days_of(self.year, month));
        months.sum::<u32>() + self.day - 1
    }
}

#[cfg(test)]
mod tests {
    use super::{BEFORE_1970, DAY, Date};

    /// Each day from 1970 to 2400 follows the one before it, and both ways agree.
    #[test]
    fn each_day_follows() {
        let mut last = Date::at(0).unwrap();
        assert_eq!(
            (last.year, last.month, last.day, last.weekday()),
            (1970, 1, 1, 4)
        );
        for day in 1..=157_054 {
            let date = Date::at(day * DAY + 86_399).unwrap();
            assert_eq!(date.seconds(), Some(day * DAY + 86_399));
            assert_eq!(date.weekday(), (last.weekday() + 1) % 7);
            let same_month =
                (date.year, date.month, date.day) == (last.year, last.month, last.day + 1);
            let next_month = date.day == 1
                && !Date {
                    day: last.day + 1,
                    ..last
                }
                .is_valid();
            assert!(same_month || next_month, "{last:?} {date:?}");
            let expected = if date.year == last.year {
                last.day_of_year() + 1
            } else {
                0
            };
            assert_eq!(date.day_of_year(), expected);
            last = date;
        }
        assert_eq!((last.year, last.month, last.day), (2400, 1, 1));
    }

    #[test]
    fn what_is_no_date() {
        let date = Date {
            year: 2100,
            month: 2,
            day: 28,
            hour: 23,
            minute: 59,
            second: 59,
        };
        assert!(date.is_valid());
        for wrong in [
            Date { day: 29, ..date },
            Date { day: 0, ..date },
            Date { month: 13, ..date },
            Date { hour: 24, ..date },
            Date { second: 60, ..date },
            Date { year: 1969, ..date },
            Date {
                year: u32::MAX,
                ..date
            },
        ] {
            assert_eq!(wrong.seconds(), None, "{wrong:?}");
        }
        assert!(Date::at(253_402_300_799).is_some() && Date::at(253_402_300_800).is_none());
        assert_eq!(Date::at(u64::MAX), None);
        assert_eq!(Date::at(u64::MAX - BEFORE_1970), None);
    }
}
