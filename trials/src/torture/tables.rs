//! A descriptor table as subject of torture: threads that share it open, duplicate and close, the same
//! numbers above all.
//!
//! *Interface*: [`TABLE`].

use alloc::sync::Arc;

use abi::linux::O_RDWR;
use file::fdtable::FdTable;
use file::stubs::stubs;
use file::{File, OpenFile};
use sync::{Once, epoch};

use super::subject::{Subject, Tally};

/// Numbers that everybody fights for.
const COMMON: [i32; 2] = [3, 40];
/// Beyond what there is room for at first.
const FAR: i32 = 70;

/// The table, and the descriptions that were opened and closed.
pub struct Table {
    files: Once<Arc<FdTable>>,
    tally: Tally,
}

/// The only one.
pub static TABLE: Table = Table {
    files: Once::new(),
    tally: Tally::new(),
};

/// A file that notes its end.
struct Noted;

impl File for Noted {
    fn close(&self, _: &OpenFile) {
        TABLE.tally.left(1);
    }
}

impl Table {
    fn files(&self) -> &FdTable {
        self.files.get().expect("made by `settle`")
    }
}

fn open() -> Arc<OpenFile> {
    TABLE.tally.entered(1);
    OpenFile::new(Arc::new(Noted), O_RDWR)
}

impl Subject for Table {
    fn name(&self) -> &'static str {
        "descriptor table"
    }

    fn operate(&self, _: usize, round: u64) {
        let files = self.files();
        let common = COMMON[round as usize % 2];
        let fd = files.install(open(), false).expect("room for a descriptor");
        let here = files.get(fd);
        // Another may have put its own there, or closed it.
        let again = files.install_from(common, here.unwrap_or_else(|_| open()), true);
        files
            .install_at(common, open(), false)
            .expect("room for a descriptor");
        let _mine = files.set_cloexec(common, true);
        let _mine = files.close(fd);
        let _mine = again.and_then(|again| files.close(again));
        if round % 8 == 7 {
            let _theirs = files.close(common);
        }
    }

    fn settle(&self) {
        if self.files.get().is_none() {
            let files = FdTable::new(256).expect("memory for a table");
            files.share();
            // An opener that needs a larger table waits for its maker; that is not shown here.
            files
                .install_at(FAR, open(), false)
                .expect("room for a descriptor");
            let _first = self.files.set(files);
        }
        let files = self.files();
        let bad = [stubs().bad_fd; 3];
        for fd in 0..FAR {
            let code = files.plugged(fd).expect("within the table");
            match files.get(fd) {
                Ok(_) => assert_ne!(code, bad, "no code at descriptor {fd}, which is open"),
                Err(_) => assert_eq!(code, bad, "code at descriptor {fd}, which is closed"),
            }
        }
        files.close_all();
        // Somebody else may have taken it on himself to free them.
        super::until("every file's end", || {
            epoch::synchronize();
            self.tally.is_even()
        });
        self.tally.check(self.name());
        let lowest = files.install(open(), false);
        assert_eq!(lowest, Ok(0), "a free descriptor is lost");
        assert_eq!(files.close(0), Ok(()));
    }
}
