//! WAV files: the frames of sound in them.
//!
//! *Interface*: [`frames`].
//! Source: Microsoft and IBM, Multimedia Programming Interface and Data Specifications 1.0 (1991), "WAVE".

/// The frames of a disc, two samples of 16 bits each: those of a WAV file of 44,100 in a second, or all bytes
/// of a file that is no WAV.
///
/// # Errors
/// A sentence about a WAV file of another kind.
pub fn frames(bytes: &[u8]) -> Result<&[u8], &'static str> {
    if !bytes.starts_with(b"RIFF") {
        return Ok(bytes);
    }
    let mut rest = match bytes.get(8..12) {
        Some(b"WAVE") => &bytes[12..],
        _ => return Err("no WAV file"),
    };
    let mut fits = false;
    while let Some((head, behind)) = rest.split_at_checked(8) {
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        // The length of one that was not finished is zero, or more than there is.
        let part = &behind[..len.min(behind.len())];
        match &head[..4] {
            b"fmt " => {
                const DISC: [u8; 8] = [1, 0, 2, 0, 0x44, 0xac, 0, 0];
                fits = part.starts_with(&DISC) && part.get(14..16) == Some(&[16, 0]);
            }
            b"data" if !fits => return Err("not 44,100 stereo frames of 16 bits a second"),
            b"data" if len == 0 => return Ok(behind),
            b"data" => return Ok(part),
            _ => {}
        }
        rest = behind.get(len.next_multiple_of(2)..).unwrap_or_default();
    }
    Err("a WAV file without sound")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(rate: u32, len: u32, sound: &[u8]) -> Vec<u8> {
        let mut bytes = b"RIFF\0\0\0\0WAVEnote\x03\0\0\0abc\0fmt \x10\0\0\0\x01\0\x02\0".to_vec();
        bytes.extend(rate.to_le_bytes());
        bytes.extend([0, 0, 0, 0, 4, 0, 16, 0]);
        bytes.extend(b"data");
        bytes.extend(len.to_le_bytes());
        bytes.extend(sound);
        bytes
    }

    #[test]
    fn only_what_a_disc_has_is_taken() {
        let sound = [1, 2, 3, 4];
        assert_eq!(frames(&sound), Ok(&sound[..]));
        for len in [4, 0, 4000] {
            assert_eq!(frames(&file(44_100, len, &sound)), Ok(&sound[..]));
        }
        assert!(frames(&file(48_000, 4, &sound)).is_err());
        let whole = file(44_100, 4, &sound);
        for cut in 4..whole.len() - 5 {
            assert!(frames(&whole[..cut]).is_err(), "{cut}");
        }
    }
}
