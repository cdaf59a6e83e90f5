//! Models of what serializes: helping lock, single server.

use crate::kit::Count;
use crate::{link_threads, model};
use lab::HelpingLock;
use lab::helping::Switch;
use lab::single_server::SingleServer;
use loom::sync::Arc;
use loom::thread;

#[test]
fn a_helping_lock_excludes_and_is_passed_on() {
    link_threads();
    model(3, || {
        let both = Arc::new((HelpingLock::new(), Count::new()));
        let add = |both: &(HelpingLock, Count), switch| {
            both.0.lock();
            both.1.add();
            both.0.unlock(switch);
        };
        let threads: Vec<_> = [Switch::Next, Switch::Scheduler]
            .into_iter()
            .map(|switch| {
                let both = both.clone();
                thread::spawn(move || add(&both, switch))
            })
            .collect();
        add(&both, Switch::Stay);
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(both.0.try_lock());
        assert!(!both.0.try_lock());
        assert_eq!(both.1.get(), 3);
    });
}

#[test]
fn a_single_server_does_what_is_requested() {
    link_threads();
    model(3, || {
        let server = Arc::new(SingleServer::new(0, (sync::callout::get().current)()));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let server = server.clone();
                thread::spawn(move || {
                    server.request(|n| {
                        *n += 1;
                        *n
                    })
                })
            })
            .collect();
        let mut served = 0;
        while served < 2 {
            // SAFETY: this thread is the owner.
            match unsafe { server.serve() } {
                0 => thread::park(),
                n => served += n,
            }
        }
        let mut results: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        results.sort_unstable();
        assert_eq!(results, [1, 2]);
    });
}
