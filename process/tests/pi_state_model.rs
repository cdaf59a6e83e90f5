//! Every interleaving of owners of locks that end with waiters that come, go and are handed a lock, checked
//! with loom: nobody is left waiting for one that has ended.

extern crate alloc;

mod primitive {
    pub use loom::sync::atomic::{AtomicI32, AtomicU32, Ordering};

    /// loom takes such accesses for acquire and release only, and needs a fence to know.
    pub fn in_order() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}
#[allow(dead_code)]
#[path = "../src/process/pi_state.rs"]
mod pi_state;

use loom::sync::Mutex;
use loom::thread;
use pi_state::{ENDED, PiPart, PiParty, PiState};
use std::sync::Arc;

struct Task {
    number: i32,
    part: PiPart,
}

impl PiParty for Task {
    fn part(&self) -> &PiPart {
        &self.part
    }

    fn number(&self) -> i32 {
        self.number
    }
}

fn task(number: i32) -> Arc<Task> {
    Arc::new(Task {
        number,
        part: PiPart::default(),
    })
}

/// One that waits in the bucket: for an owner, or to say that it is the heir.
enum Role {
    Lock(PiState<Task>),
    Heir(i32),
}

/// The bucket of one lock, those who wait longest first.
struct Bucket(Mutex<Vec<Role>>);

impl Bucket {
    fn new(bonds: Vec<PiState<Task>>) -> Arc<Bucket> {
        Arc::new(Bucket(Mutex::new(
            bonds.into_iter().map(Role::Lock).collect(),
        )))
    }

    /// `waiter` comes to wait for `owner`, who has the lock. Whether it waits.
    fn enter(&self, owner: &Arc<Task>, waiter: &Arc<Task>) -> bool {
        let mut list = self.0.lock().unwrap();
        let bond = PiState::new(owner.clone(), waiter.clone());
        let enters = owner.part.may_own();
        if enters {
            list.push(Role::Lock(bond));
        }
        enters
    }

    /// `owner` hands the lock to the first; who that is.
    fn hand_on(&self, owner: &Arc<Task>) -> Option<i32> {
        let mut list = self.0.lock().unwrap();
        if list.is_empty() {
            return None;
        }
        let Role::Lock(first) = list.remove(0) else {
            panic!("an owner that lives has no heir");
        };
        let heir = first.waiter.clone();
        pass(&mut list, owner, &heir);
        Some(heir.number)
    }

    /// `owner` has ended.
    fn leave(&self, owner: &Arc<Task>) {
        let mut list = self.0.lock().unwrap();
        let of_owner =
            |role: &Role| matches!(role, Role::Lock(bond) if Arc::ptr_eq(&bond.owner, owner));
        let Some(first) = list.iter().position(of_owner) else {
            return;
        };
        let Role::Lock(bond) = std::mem::replace(&mut list[first], Role::Heir(0)) else {
            return;
        };
        list[first] = Role::Heir(bond.waiter.number);
        pass(&mut list, owner, &bond.waiter);
    }

    /// `waiter` waits no more. False: it does not.
    fn withdraw(&self, waiter: &Arc<Task>) -> bool {
        let mut list = self.0.lock().unwrap();
        let own =
            |role: &Role| matches!(role, Role::Lock(bond) if Arc::ptr_eq(&bond.waiter, waiter));
        let at = list.iter().position(own);
        at.map(|at| list.remove(at)).is_some()
    }

    /// Nobody waits for one that has ended, and with the bonds the counts go.
    fn ends(&self, tasks: &[&Arc<Task>]) {
        for role in self.0.lock().unwrap().drain(..) {
            if let Role::Lock(bond) = role {
                assert_ne!(bond.owner.part.stage(), ENDED, "left waiting");
                assert_eq!(bond.waiter.part.waits_for(), bond.owner.number);
            }
        }
        for task in tasks {
            assert_eq!(task.part.waits_for(), 0);
            task.part.end(false, || panic!("a count without a bond"));
        }
    }
}

fn pass(list: &mut [Role], from: &Arc<Task>, to: &Arc<Task>) {
    for role in list {
        if let Role::Lock(bond) = role
            && Arc::ptr_eq(&bond.owner, from)
        {
            bond.pass(to);
        }
    }
}

/// Its end, as a thread has it.
fn end(task: &Arc<Task>, bucket: &Bucket) {
    task.part.begin_end();
    task.part.end(false, || bucket.leave(task));
}

#[test]
fn who_comes_to_an_owner_that_ends_waits_for_nobody_or_inherits() {
    loom::model(|| {
        let (owner, waiter) = (task(1), task(2));
        let bucket = Bucket::new(Vec::new());
        let ending = {
            let (owner, bucket) = (owner.clone(), bucket.clone());
            thread::spawn(move || end(&owner, &bucket))
        };
        let entered = bucket.enter(&owner, &waiter);
        ending.join().unwrap();
        let inherits = matches!(bucket.0.lock().unwrap()[..], [Role::Heir(2)]);
        assert_eq!(entered, inherits);
        bucket.ends(&[&owner, &waiter]);
    });
}

#[test]
fn two_that_come_to_an_owner_that_ends() {
    loom::model(|| {
        let tasks = [task(1), task(2), task(3)];
        let [owner, one, other] = &tasks;
        let bucket = Bucket::new(Vec::new());
        let ending = {
            let (owner, bucket) = (owner.clone(), bucket.clone());
            thread::spawn(move || end(&owner, &bucket))
        };
        let coming = {
            let (owner, one, bucket) = (owner.clone(), one.clone(), bucket.clone());
            thread::spawn(move || bucket.enter(&owner, &one))
        };
        bucket.enter(owner, other);
        ending.join().unwrap();
        coming.join().unwrap();
        let heirs = bucket.0.lock().unwrap();
        let count = heirs
            .iter()
            .filter(|role| matches!(role, Role::Heir(_)))
            .count();
        assert_eq!(count, usize::from(!heirs.is_empty()));
        drop(heirs);
        bucket.ends(&[owner, one, other]);
    });
}

/// The second has been waiting and is killed, while the first hands the lock on and a third waits.
#[test]
fn a_lock_that_is_handed_to_one_that_ends_goes_on_to_the_next() {
    loom::model(|| {
        let tasks = [task(1), task(2), task(3)];
        let [owner, killed, last] = &tasks;
        let bonds = [killed, last].map(|waiter| PiState::new(owner.clone(), waiter.clone()));
        let bucket = Bucket::new(bonds.into());
        let ending = {
            let (killed, bucket) = (killed.clone(), bucket.clone());
            thread::spawn(move || {
                let withdrew = bucket.withdraw(&killed);
                end(&killed, &bucket);
                withdrew
            })
        };
        let handed_to = bucket.hand_on(owner);
        let withdrew = ending.join().unwrap();
        assert_eq!(handed_to, Some(if withdrew { 3 } else { 2 }));
        let list = bucket.0.lock().unwrap();
        assert!(match list[..] {
            [] => withdrew,
            [Role::Heir(3)] => !withdrew,
            _ => false,
        });
        drop(list);
        bucket.ends(&[owner, killed, last]);
    });
}
