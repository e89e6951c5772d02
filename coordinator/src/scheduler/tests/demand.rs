//! What people and nodes ask for: submissions, cancels, drains, invites, hellos.

use super::*;

#[test]
fn words_of_an_old_connection_are_ignored() {
    let mut bench = Bench::new();
    bench.join(1);
    let (_, effects) = bench.submit(1, "a");
    let (granted, _) = bench.record(&effects);
    bench.hello(node(1), 2, &[device("CPU-1", CLASS, 2000)], &[held(&granted[0])]);
    let (cell, fence, how) = (granted[0].cell, granted[0].fence, Stop::Abandoned);
    let old = (node(1), session(1));
    assert_eq!(bench.step(Input::AttemptStopped { node: old.0, session: old.1, cell, fence, how }), []);
    assert_eq!(bench.step(Input::NodeDisconnected { node: old.0, session: old.1 }), []);
    assert_eq!(bench.scheduler.nodes()[0].link, view::Link::Connected);
    let stage = Stage::Compile;
    assert_eq!(bench.step(Input::Progress { node: old.0, session: old.1, cell, fence, stage }), []);
    let older = bench.hello(node(1), 1, &[], &[]);
    assert_eq!(refusal(&older), "node/replaced");
}

#[test]
fn cancel_stops_what_runs_and_what_waits() {
    let mut bench = Bench::new();
    bench.join(1);
    let (cells, effects) = bench.submit(2, "a");
    let (granted, _) = bench.record(&effects);
    let id = submission(2, "a").id().unwrap();
    let request = bench.request();
    let effects = bench.step(Input::Cancel { request, target: CancelTarget::Submission(id) });
    assert!(matches!(effects[0], Effect::Persist { fact: Fact::Cancelled(_), .. }));
    assert_eq!(ends(&effects).len(), 2);
    assert_eq!(cancels(&effects), [granted[0].fence]);
    // After a crash the cancel is known and its ends are asked for again.
    assert_eq!(ends(&bench.restarted().1).len(), 2);
    // The result of the running one was in the ledger first: it stands.
    bench.commit(&granted[0], Status::Ok, Blame::Nobody);
    assert!(matches!(bench.standing(cells[0]), Standing::Finished(Ending::Result { .. })));
    let (cell, reason, index) = (cells[1], EndReason::Cancelled, LeafIndex(50));
    bench.ledger(LedgerEvent::Ended { cell, reason, index });
    assert_eq!(bench.standing(cell), Standing::Finished(Ending::Ended { reason, index }));
    let again = bench.step(Input::Cancel { request, target: CancelTarget::Submission(id) });
    assert_eq!(again, [Effect::Reply { request, reply: Reply::Cancelled { cells: 0 } }]);
    let target = CancelTarget::Cell(CellId([0; 32]));
    assert_eq!(refusal(&bench.step(Input::Cancel { request, target })), "cancel/unknown");
}

#[test]
fn a_drained_node_finishes_and_takes_no_more_even_after_a_restart() {
    let mut bench = Bench::new();
    bench.join(1);
    let (cells, effects) = bench.submit(2, "a");
    let (granted, _) = bench.record(&effects);
    let request = bench.request();
    let effects = bench.step(Input::Drain { request, node: node(1), intent: DrainIntent::Drain });
    assert!(effects.contains(&Effect::Reply { request, reply: Reply::Drained { running: 1 } }));
    let told = |number, intent| Effect::Intake { node: node(1), session: session(number), intent };
    assert!(effects.contains(&told(1, DrainIntent::Drain)), "{effects:?}");
    let effects = bench.commit(&granted[0], Status::Ok, Blame::Nobody);
    assert_eq!(grants(&effects), []);
    assert_eq!(bench.obstacles(cells[1]), [Obstacle::Draining { devices: 1 }]);
    let (mut bench, _) = bench.restarted();
    let joined = bench.join(1);
    assert_eq!(grants(&joined), []);
    assert!(joined.contains(&told(1, DrainIntent::Drain)), "a drain is said again on each connection");
    let effects = bench.step(Input::Drain { request, node: node(1), intent: DrainIntent::Resume });
    assert_eq!(grants(&effects).len(), 1);
    assert!(effects.contains(&told(1, DrainIntent::Resume)), "{effects:?}");
    let unknown = bench.step(Input::Drain { request, node: node(7), intent: DrainIntent::Drain });
    assert_eq!(refusal(&unknown), "node/unknown");
}

#[test]
fn a_submission_made_twice_is_one_and_bad_ones_are_refused() {
    let mut bench = Bench::new();
    let (_, first) = bench.submit(1, "a");
    assert_eq!(refusal(&first), "");
    let (_, again) = bench.submit(1, "a");
    let already =
        |effect: &Effect| matches!(effect, Effect::Reply { reply: Reply::AlreadyAccepted { .. }, .. });
    assert!(again.len() == 1 && already(&again[0]));
    let check = |change: fn(&mut Submission, &mut Terms), code: &str| {
        let (mut wrong, mut terms) = (submission(2, "wrong"), terms());
        change(&mut wrong, &mut terms);
        let effects = Bench::new().submit_with(wrong, terms);
        assert_eq!((refusal(&effects).as_str(), effects.len()), (code, 1));
    };
    check(|wrong, _| wrong.candidates.clear(), "submit/empty");
    check(|wrong, _| wrong.targets.clear(), "submit/empty");
    check(|wrong, _| wrong.candidates[1] = wrong.candidates[0], "submit/duplicate-cell");
    check(|wrong, _| wrong.candidates = vec![CandidateId([0; 32]); 10_001], "submit/too-many-cells");
    check(|_, terms| terms.seeds = 0, "submit/seeds");
    check(|_, terms| terms.seeds = 1 << 20, "submit/seeds");
}

#[test]
fn a_cell_answered_by_an_earlier_result_is_finished_at_once() {
    let mut bench = Bench::new();
    bench.join(1);
    let submission = submission(1, "a");
    let cell = submission.cells(submission.id().unwrap())[0].0;
    let request = bench.request();
    let (terms, entropy, reused) = (terms(), Digest([5; 32]), BTreeMap::from([(cell, LeafIndex(4))]));
    let effects =
        bench.step(Input::Submit(Box::new(SubmitRequest { request, submission, terms, entropy, reused })));
    assert_eq!(grants(&effects), []);
    assert!(matches!(effects.last(), Some(Effect::Publish(Event::SubmissionFinished { .. }))));
    assert_eq!(bench.standing(cell), Standing::Finished(Ending::Reused { index: LeafIndex(4) }));
    assert_eq!(bench.restarted().0.standing(cell), bench.standing(cell));
}

#[test]
fn an_invite_is_bound_to_the_first_key_that_uses_it() {
    let mut bench = Bench::new();
    let (id, secret, key) = (InviteId("i".to_owned()), Digest([1; 32]), Digest([2; 32]));
    let invite = Invite { id: id.clone(), secret_hash: secret, expires_unix_ms: 1_000, uses: 1, class: None };
    let request = bench.request();
    let effects = bench.step(Input::CreateInvite { request, invite: invite.clone() });
    assert!(effects.contains(&Effect::Reply { request, reply: Reply::InviteCreated }));
    let consume = |bench: &mut Bench, secret_hash, key, now_unix_ms| {
        let invite = id.clone();
        bench.step(Input::ConsumeInvite { request, invite, secret_hash, key, now_unix_ms })
    };
    assert_eq!(refusal(&consume(&mut bench, key, key, 0)), "invite/unknown");
    assert_eq!(refusal(&consume(&mut bench, secret, key, 1_000)), "invite/expired");
    let used = consume(&mut bench, secret, key, 999);
    assert!(matches!(used[0], Effect::Persist { fact: Fact::InviteConsumed { .. }, .. }));
    let (mut bench, _) = bench.restarted();
    let again = consume(&mut bench, secret, key, 5_000);
    assert_eq!(again, [Effect::Reply { request, reply: Reply::InviteConsumed { class: None } }]);
    assert_eq!(refusal(&consume(&mut bench, secret, Digest([3; 32]), 0)), "invite/used");
    assert_eq!(refusal(&bench.step(Input::CreateInvite { request, invite })), "invite/name");
}

#[test]
fn a_hello_with_too_much_or_a_device_twice_is_refused() {
    let mut bench = Bench::new();
    let twice = [device("CPU-1", CLASS, 1), device("CPU-1", CLASS, 1)];
    assert_eq!(refusal(&bench.hello(node(1), 1, &twice, &[])), "node/device-twice");
    let many: Vec<_> = (0..65).map(|number| device(&number.to_string(), CLASS, 1)).collect();
    assert_eq!(refusal(&bench.hello(node(1), 1, &many, &[])), "node/too-much");
    assert_eq!(bench.scheduler.nodes(), []);
}
