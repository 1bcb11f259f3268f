//! Any sequence of calls, against a model that knows which slots are out.

use std::collections::BTreeMap;

use diskcanary::io::Completion;
use diskcanary::sys::Errno;
use proptest::prelude::{Strategy, prop_oneof};
use proptest::test_runner::{Config, TestRunner};

use crate::support::{BLOCK, BLOCKS, Case, KINDS, read};

const DEPTH: u16 = 5;

#[derive(Clone, Debug)]
enum Call {
    Submit { slot: u16, block: u64, len: u32 },
    Single { slot: u16, block: u64 },
    Reap,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let submit = (0..=DEPTH, 0..BLOCKS, 0..=3u32).prop_map(|(slot, block, len)| Call::Submit {
        slot,
        block,
        len: len * 4096,
    });
    let single = (0..=DEPTH, 0..BLOCKS).prop_map(|(slot, block)| Call::Single { slot, block });
    let reap = proptest::strategy::Just(Call::Reap);
    proptest::collection::vec(prop_oneof![6 => submit, 1 => single, 3 => reap], 1..60)
}

#[test]
fn any_sequence_of_calls_keeps_to_the_model() {
    for kind in KINDS {
        let mut runner =
            TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
        let run = |calls: Vec<Call>| {
            let mut case = Case::new(kind, DEPTH);
            let mut out = BTreeMap::new();
            calls.into_iter().for_each(|call| apply(&mut case, &mut out, call));
            while !out.is_empty() {
                apply(&mut case, &mut out, Call::Reap);
            }
            Ok(())
        };
        runner.run(&calls(), run).unwrap();
    }
}

/// `out`: slot → (offset, length) of what is out.
fn apply(case: &mut Case, out: &mut BTreeMap<u16, (u64, u32)>, call: Call) {
    match call {
        Call::Submit { slot, block, len } => {
            let expected = match (slot, len) {
                (DEPTH.., _) | (_, 8193..) => Err(Errno::EINVAL),
                _ if out.contains_key(&slot) => Err(Errno::EBUSY),
                _ => Ok(()),
            };
            let offset = block * u64::from(BLOCK);
            assert_eq!(case.engine.submit(read(slot, offset, len)), expected, "{:?}", case.kind);
            if expected.is_ok() {
                out.insert(slot, (offset, len));
            }
        }
        Call::Single { slot, block } => {
            let expected = match slot {
                _ if !out.is_empty() => Err(Errno::EBUSY),
                DEPTH.. => Err(Errno::EINVAL),
                _ => Ok(BLOCK),
            };
            let done = case.engine.single(read(slot, block * u64::from(BLOCK), BLOCK));
            assert_eq!((done.slot, done.result), (slot, expected), "{:?}", case.kind);
            if expected.is_ok() {
                case.check_data(&done, block * u64::from(BLOCK));
            }
        }
        Call::Reap => {
            let mut done: Vec<Completion> = Vec::new();
            case.engine.reap(&mut done);
            assert_eq!(done.is_empty(), out.is_empty(), "{:?}", case.kind);
            for done in done {
                let (offset, len) = out.remove(&done.slot).expect("a completion of what was not out");
                assert_eq!(done.result, Ok(len), "{:?}", case.kind);
                case.check_data(&done, offset);
            }
        }
    }
    assert_eq!(usize::from(case.engine.outstanding()), out.len(), "{:?}", case.kind);
    for slot in 0..=DEPTH {
        let free = slot < DEPTH && !out.contains_key(&slot);
        assert_eq!(case.engine.buffer(slot).is_some(), free, "{:?}: slot {slot}", case.kind);
    }
}
