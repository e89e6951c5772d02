//! What must hold whatever happens.

use super::*;

fn inputs() -> impl Strategy<Value = Input> {
    let attempt = || (0u8..3, 0u64..3).prop_map(|(cell, fence)| key(cell, fence));
    prop_oneof![
        Just(Input::Connected),
        Just(Input::Welcomed(welcome(vec![([1; 32], 1)]))),
        any::<u64>()
            .prop_map(|entropy| Input::ConnectFailed { failure: ConnectFailure::Unreachable, entropy }),
        any::<u64>().prop_map(|entropy| Input::Disconnected { entropy }),
        any::<u64>().prop_map(|entropy| Input::Dismissed { goodbye: goodbye(true), entropy }),
        any::<u64>().prop_map(|entropy| Input::Woken { entropy }),
        (0u8..3, 0u64..3, any::<bool>(), any::<u64>()).prop_map(|(cell, fence, a, stream)| Input::Assigned {
            stream: StreamKey(stream),
            assign: assign(cell, fence, if a { "A" } else { "B" })
        }),
        attempt().prop_map(|attempt| Input::Cancelled { attempt }),
        attempt().prop_map(|attempt| Input::JobFinished { attempt }),
        attempt().prop_map(|attempt| Input::JobAbandoned {
            attempt,
            code: String::new(),
            cause: String::new()
        }),
        (attempt(), any::<u64>()).prop_map(|(attempt, entropy)| Input::Acknowledged {
            attempt,
            recorded: if entropy % 2 == 0 { accepted() } else { later() },
            entropy
        }),
        attempt().prop_map(|attempt| Input::ReportFailed { attempt, entropy: 1 }),
    ]
}

proptest! {
    /// Whatever happens: one job per device, each attempt is started at most once, each result settled at most
    /// once, and while there is no connection the machine always has a next step or waits for its dial.
    #[test]
    fn invariants_hold(script in proptest::collection::vec((0u64..3_000, inputs()), 0..200)) {
        let mut machine = new();
        let mut now = T0;
        let mut running: BTreeMap<AttemptKey, String> = BTreeMap::new();
        let mut signed: BTreeSet<AttemptKey> = BTreeSet::new();
        let mut dialling = !machine.step(now, Input::Begin).is_empty();
        for (pause, input) in script {
            now = now.after(pause);
            // The driver speaks only of what it was asked to do.
            match &input {
                Input::Connected | Input::ConnectFailed { .. } if !dialling => continue,
                Input::JobFinished { attempt } => {
                    if running.remove(attempt).is_none() { continue }
                    signed.insert(*attempt);
                }
                Input::JobAbandoned { attempt, .. } if running.remove(attempt).is_none() => continue,
                _ => {}
            }
            if matches!(input, Input::Connected | Input::ConnectFailed { .. } | Input::Disconnected { .. }) {
                dialling = false;
            }
            for effect in machine.step(now, input) {
                match effect {
                    Effect::StartJob { assign } => {
                        prop_assert!(!running.values().any(|device| *device == assign.device));
                        prop_assert!(running.insert(AttemptKey::of(&assign), assign.device).is_none());
                    }
                    Effect::Settle { attempt, .. } => prop_assert!(signed.remove(&attempt)),
                    Effect::SendReport { attempt } => prop_assert!(signed.contains(&attempt)),
                    Effect::Connect { .. } => { prop_assert!(!dialling); dialling = true; }
                    Effect::Disconnect => dialling = false,
                    _ => {}
                }
            }
            prop_assert!(machine.wake_at().is_some() || dialling);
        }
    }
}
