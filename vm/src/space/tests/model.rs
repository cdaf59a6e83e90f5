//! Random operations on a family of spaces, compared with a model that knows neither areas nor tables: for
//! each page only its rights and where its first byte comes from.

use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Pages in play, from `A` on. Two leaf tables' spans meet inside.
const PAGES: usize = 24;
const BASE: usize = (4 << 20) - 12 * PAGE;
const FILE_PAGES: u64 = 10;

/// Where a page's first byte comes from.
#[derive(Clone)]
enum Source {
    /// Its own; `None` for a file page that was not written yet.
    Own(Option<u8>, Option<u64>),
    File(u64),
    /// An object of so many pages, and which of them.
    SharedAnonymous((Rc<RefCell<HashMap<u64, u8>>>, u64), u64),
}

#[derive(Clone)]
struct Page {
    prot: Prot,
    source: Source,
}

type Model = HashMap<usize, Page>;

#[derive(Clone, Debug)]
enum Op {
    Map(usize, usize, u8, Prot),
    Unmap(usize, usize),
    Protect(usize, usize, Prot),
    Write(usize, u8),
    Read(usize),
    Discard(usize, usize),
    Move(usize, usize, usize, usize),
    Resize(usize, usize, usize, bool),
    Fork,
    Leave,
}

fn prot() -> impl Strategy<Value = Prot> {
    prop_oneof![3 => Just(Prot::RW), 1 => Just(Prot::READ), 1 => Just(Prot::NONE), 1 => Just(Prot::RX)]
}

fn op() -> impl Strategy<Value = Op> {
    let range = || (0..PAGES, 1..8usize);
    prop_oneof![
        4 => (range(), 0..4u8, prot()).prop_map(|((a, n), kind, prot)| Op::Map(a, n, kind, prot)),
        2 => range().prop_map(|(a, n)| Op::Unmap(a, n)),
        2 => (range(), prot()).prop_map(|((a, n), prot)| Op::Protect(a, n, prot)),
        8 => (0..PAGES, any::<u8>()).prop_map(|(a, value)| Op::Write(a, value)),
        8 => (0..PAGES).prop_map(Op::Read),
        1 => range().prop_map(|(a, n)| Op::Discard(a, n)),
        1 => (range(), range()).prop_map(|((a, n), (b, m))| Op::Move(a, n, b, m)),
        1 => (range(), 1..8usize, any::<bool>()).prop_map(|((a, n), m, may)| Op::Resize(a, n, m, may)),
        2 => Just(Op::Fork),
        1 => Just(Op::Leave),
    ]
}

fn at(page: usize) -> usize {
    BASE + page * PAGE
}

/// The byte at `page` now, or the reason for none.
fn look(
    model: &Model,
    file: &HashMap<u64, u8>,
    page: usize,
    access: Access,
) -> Result<u8, FaultError> {
    let Some(page) = model.get(&page) else {
        return Err(FaultError::NotMapped);
    };
    let needed = if access == Access::Write {
        Prot::WRITE
    } else {
        Prot::READ
    };
    if !page.prot.contains(needed) {
        return Err(FaultError::Protection);
    }
    let in_file = |index: &u64| {
        if *index >= FILE_PAGES {
            return Err(FaultError::BeyondEnd);
        }
        Ok(file.get(index).copied().unwrap_or(*index as u8 + 1))
    };
    match &page.source {
        Source::Own(Some(value), _) => Ok(*value),
        Source::Own(None, None) => Ok(0),
        Source::Own(None, Some(index)) | Source::File(index) => in_file(index),
        Source::SharedAnonymous((_, pages), index) if index >= pages => Err(FaultError::BeyondEnd),
        Source::SharedAnonymous((object, _), index) => {
            Ok(object.borrow().get(index).copied().unwrap_or(0))
        }
    }
}

struct Family {
    file: Arc<File>,
    in_file: HashMap<u64, u8>,
    members: Vec<(Arc<AddressSpace<Fake>>, Model)>,
    turn: usize,
}

impl Family {
    fn step(&mut self, op: &Op) {
        self.turn = (self.turn + 1) % self.members.len();
        if matches!(op, Op::Leave) {
            if self.members.len() > 1 {
                self.members.remove(self.turn);
            }
            return;
        }
        let room = self.members.len() < 4;
        let (space, model) = &mut self.members[self.turn];
        match *op {
            Op::Map(start, count, kind, prot) => {
                let object = Rc::new(RefCell::new(HashMap::new()));
                let pager: Arc<dyn Pager> = self.file.clone();
                let offset = (start % 3 * PAGE) as u64;
                let backing = match kind {
                    0 => Backing::Anonymous,
                    1 => Backing::AnonymousShared { may_write: true },
                    2 => Backing::FilePrivate {
                        pager,
                        offset,
                        may_exec: true,
                    },
                    _ => Backing::FileShared {
                        pager,
                        offset,
                        may_write: true,
                        may_exec: true,
                    },
                };
                let place = Placement::Fixed(at(start));
                assert_eq!(space.map(place, count * PAGE, prot, backing), Ok(at(start)));
                for i in 0..count {
                    let index = (start % 3 + i) as u64;
                    let source = match kind {
                        0 => Source::Own(None, None),
                        1 => Source::SharedAnonymous((object.clone(), count as u64), i as u64),
                        2 => Source::Own(None, Some(index)),
                        _ => Source::File(index),
                    };
                    model.insert(start + i, Page { prot, source });
                }
            }
            Op::Unmap(start, count) => {
                assert_eq!(space.unmap(at(start), count * PAGE), Ok(()));
                (start..start + count).for_each(|page| drop(model.remove(&page)));
            }
            Op::Protect(start, count, prot) => {
                let whole = (start..start + count).all(|page| model.contains_key(&page));
                let result = space.protect(at(start), count * PAGE, prot);
                assert_eq!(result.is_ok(), whole);
                for page in start..start + count {
                    match model.get_mut(&page) {
                        Some(page) => page.prot = prot,
                        None => break,
                    }
                }
            }
            Op::Write(page, value) => {
                let expected = look(model, &self.in_file, page, Access::Write).map(|_| ());
                assert_eq!(space.write_at(at(page), &[value]), expected);
                if expected.is_ok() {
                    match &mut model.get_mut(&page).unwrap().source {
                        Source::Own(own, _) => *own = Some(value),
                        Source::File(index) => drop(self.in_file.insert(*index, value)),
                        Source::SharedAnonymous((object, _), index) => {
                            object.borrow_mut().insert(*index, value);
                        }
                    }
                }
            }
            Op::Read(page) => {
                assert_eq!(
                    read(space, at(page)),
                    look(model, &self.in_file, page, Access::Read)
                );
            }
            Op::Discard(start, count) => {
                let whole = (start..start + count).all(|page| model.contains_key(&page));
                assert_eq!(space.discard(at(start), count * PAGE).is_ok(), whole);
                for page in start..start + count {
                    if let Some(Page {
                        source: Source::Own(own, _),
                        ..
                    }) = model.get_mut(&page)
                    {
                        *own = None;
                    }
                }
            }
            Op::Move(from, old, to, new) => {
                let result = space.remap(at(from), old * PAGE, new * PAGE, Remap::To(at(to)));
                if result == Err(Errno::EFAULT) || result == Err(Errno::EINVAL) {
                    return;
                }
                assert_eq!(result, Ok(at(to)));
                moved(model, from, old, to, new);
            }
            Op::Resize(from, old, new, may_move) => {
                let how = if may_move {
                    Remap::MayMove
                } else {
                    Remap::InPlace
                };
                match space.remap(at(from), old * PAGE, new * PAGE, how) {
                    Ok(place) if place == at(from) => {
                        (from + new..from + old).for_each(|page| drop(model.remove(&page)));
                        (old..new).for_each(|i| grown(model, old, from, i));
                    }
                    Ok(place) => {
                        // Out of the window: look at it there, and take it away.
                        assert!(new > old);
                        for i in 0..old {
                            let expected = look(model, &self.in_file, from + i, Access::Read);
                            assert_eq!(read(space, place + i * PAGE), expected);
                            model.remove(&(from + i));
                        }
                        space.unmap(place, new * PAGE).unwrap();
                    }
                    Err(error) => {
                        assert!(error == Errno::EFAULT || (error == Errno::ENOMEM && !may_move))
                    }
                }
            }
            Op::Fork => {
                if room {
                    let copy = (space.fork().unwrap(), model.clone());
                    self.members.push(copy);
                }
            }
            Op::Leave => {}
        }
    }

    fn check(&self) {
        for (space, model) in &self.members {
            assert_eq!(space.size(), model.len() * PAGE);
            let mut present = 0;
            space.tables().each_part(0, 1 << 47, |base, words| {
                for (i, word) in words.iter().enumerate() {
                    if occupied(word.load(Ordering::Relaxed)) {
                        present += 1;
                        let page = (base + i * PAGE - BASE) / PAGE;
                        assert!(model.contains_key(&page), "page {page} has no area");
                    }
                }
            });
            assert_eq!(space.resident(), present);
        }
    }
}

fn moved(model: &mut Model, from: usize, old: usize, to: usize, new: usize) {
    let pages: Vec<_> = (0..old.min(new))
        .map(|i| model.remove(&(from + i)).unwrap())
        .collect();
    (new..old).for_each(|i| drop(model.remove(&(from + i))));
    (to..to + new).for_each(|page| drop(model.remove(&page)));
    for (i, page) in pages.into_iter().take(new).enumerate() {
        model.insert(to + i, page);
    }
    (old..new).for_each(|i| grown(model, old, to, i));
}

/// Page `i` of a mapping at `to` that had `old` pages continues its last one.
fn grown(model: &mut Model, old: usize, to: usize, i: usize) {
    let last = model[&(to + old - 1)].clone();
    let further = (i + 1 - old) as u64;
    let source = match last.source {
        Source::Own(_, index) => Source::Own(None, index.map(|index| index + further)),
        Source::File(index) => Source::File(index + further),
        Source::SharedAnonymous(object, index) => Source::SharedAnonymous(object, index + further),
    };
    model.insert(
        to + i,
        Page {
            prot: last.prot,
            source,
        },
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn spaces_behave_as_the_model(ops in proptest::collection::vec(op(), 1..120)) {
        let memory = Fake::new(600);
        let before = memory.frames().stats().free;
        let mut family = Family {
            file: File::new(memory, FILE_PAGES),
            in_file: HashMap::new(),
            members: vec![(AddressSpace::new_in(memory).unwrap(), Model::new())],
            turn: 0,
        };
        for op in &ops {
            family.step(op);
            family.check();
        }
        drop(family);
        prop_assert_eq!(memory.frames().stats().free, before);
    }
}
