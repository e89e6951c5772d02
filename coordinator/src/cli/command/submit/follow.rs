//! Following a submission to its end, also through restarts of the coordinator.

use super::progress::Progress;
use crate::cli::Context;
use crate::cli::client::Client;
use crate::clock::Clock;
use crate::driver::request::CellView;
use crate::driver::watch::WatchEvent;
use fleet_config::domain::SubmissionId;
use fleet_config::refusal::Refusal;
use http_body_util::BodyExt;
use std::time::Duration;

/// Pause before a broken stream is taken up.
const RESUME_AFTER: Duration = Duration::from_millis(500);

/// How often the progress is told where it is told in lines, and how long a stream may be silent: the coordinator
/// writes something every fifteen seconds.
const TICK: Duration = Duration::from_secs(30);

/// How long the coordinator has been away. It may come back: its nodes go on measuring meanwhile.
#[derive(Debug)]
struct Absence {
    limit: Duration,
    since: Option<Duration>,
}

impl Absence {
    fn new(limit: Duration) -> Self {
        Self { limit, since: None }
    }

    /// Something was heard of it.
    fn end(&mut self) {
        self.since = None;
    }

    /// Whether it may be waited for at `now`, nothing having been heard.
    fn may_last(&mut self, now: Duration) -> bool {
        let since = *self.since.get_or_insert(now);
        now.saturating_sub(since) < self.limit
    }
}

/// Follows a submission until all of its cells are over; answers with them. `limit` is for each absence of the
/// coordinator.
pub(super) async fn follow(
    context: &Context,
    submission: SubmissionId,
    progress: &mut Progress,
    limit: Duration,
) -> Result<Vec<CellView>, Refusal> {
    let clock = Clock::start();
    let mut absence = Absence::new(limit);
    loop {
        match follow_once(context, submission, progress, &mut absence).await {
            Ok(Some(cells)) => {
                progress.finish();
                return Ok(cells);
            }
            Ok(None) => {}
            Err(refusal) if is_away(&refusal) => {}
            Err(refusal) => return Err(refusal),
        }
        if !absence.may_last(clock.now()) {
            return Err(Refusal::new(
                "coordinator/no-answer",
                submission.to_string(),
                format!("the coordinator did not come back within {} s", limit.as_secs()),
                format!(
                    "nothing is lost: the submission goes on once `muster up` has started it again; then `muster status {submission}`"
                ),
            ));
        }
        progress.away(limit);
        tokio::time::sleep(RESUME_AFTER).await;
    }
}

/// Whether the coordinator may be there again in a moment.
fn is_away(refusal: &Refusal) -> bool {
    matches!(
        refusal.code.as_ref(),
        "coordinator/not-running" | "coordinator/no-answer" | "coordinator/recovering" | "internal/stopping"
    )
}

/// Follows one event stream, from its beginning: a coordinator that was started again counts its events anew, and
/// what was shown before is not shown twice. Answers with the cells once all of them are over.
async fn follow_once(
    context: &Context,
    submission: SubmissionId,
    progress: &mut Progress,
    absence: &mut Absence,
) -> Result<Option<Vec<CellView>>, Refusal> {
    let mut client = Client::connect(&context.state).await?;
    let mut body = client.stream(&format!("/v1/submissions/{submission}/events?after=0")).await?;
    let mut text = String::new();
    let mut tick = tokio::time::interval(TICK);
    // The first one comes at once.
    tick.tick().await;
    let mut is_silent = false;
    let mut is_done = false;
    while !is_done {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            _ = tick.tick() => {
                if std::mem::replace(&mut is_silent, true) {
                    break;
                }
                progress.tick();
                continue;
            }
        };
        let Some(Ok(frame)) = frame else { break };
        is_silent = false;
        absence.end();
        progress.back();
        let Some(data) = frame.data_ref() else { continue };
        text.push_str(&String::from_utf8_lossy(data));
        while let Some(end) = text.find("\n\n") {
            let block: String = text.drain(..end + 2).collect();
            let Some(event) = parse(&block) else { continue };
            progress.show(&event);
            is_done |= event.kind == "done";
        }
    }
    // Where the log of a submission was lost with a restart, the cells themselves tell whether it is over.
    let mut client = Client::connect(&context.state).await?;
    let cells: Vec<CellView> = client.get(&format!("/v1/submissions/{submission}")).await?;
    absence.end();
    let over = !cells.is_empty() && cells.iter().all(CellView::is_over);
    Ok(over.then_some(cells))
}

fn parse(block: &str) -> Option<WatchEvent> {
    let data = block.lines().find_map(|line| line.strip_prefix("data:"))?;
    serde_json::from_str(data.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absence_has_its_limit_and_a_new_one_begins_anew() {
        let seconds = Duration::from_secs;
        let mut absence = Absence::new(seconds(10));
        assert!(absence.may_last(seconds(100)) && absence.may_last(seconds(109)));
        assert!(!absence.may_last(seconds(110)));
        absence.end();
        assert!(absence.may_last(seconds(500)));
        assert!(!Absence::new(Duration::ZERO).may_last(seconds(1)), "no patience at all");
    }

    #[test]
    fn a_coordinator_that_stops_or_starts_is_away_and_a_refusal_is_an_answer() {
        let refusal = |code| Refusal::new(code, "", "", "");
        assert!(is_away(&refusal("internal/stopping")) && is_away(&refusal("coordinator/not-running")));
        assert!(!is_away(&refusal("submit/unknown-submission")));
    }
}
