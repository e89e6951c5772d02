//! Stand-by workers of one GPU: processes that are ready before somebody needs them.
//!
//! ```text
//!  nothing ──start──► started ──enter──► entered ──take──► somebody's
//!           driver          context made
//!           initialised     while no timing runs
//! ```
//! Starting a driver costs some 200 ms and making a context 100 ms or more, several times an attempt. What may be done
//! when is decided by [`Stock::next`], which is pure; keepers (threads) do it. A context is made only while this node has
//! the device and nothing is timed on it: whoever begins to time, or lets go of the device, first waits for the contexts
//! that are being made and for the workers that are ending.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// After a failure nobody tries again for this long: a driver that is gone must not keep a core busy.
const REST: Duration = Duration::from_secs(5);
/// How often somebody who waits asks whether to give up, and an idle keeper whether the device is free.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// What the device is used for at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// This node does not have it.
    Idle,
    /// Ours, and times do not matter.
    Validating,
    /// Ours, and nothing else may run.
    Timing,
    /// Ours until all that was begun on it is over.
    Leaving,
}

/// How many stand by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Processes whose driver is initialised, with and without a context. 0: none stands by.
    pub workers: usize,
    /// How many of them may have a context: each takes some hundred megabytes of the device.
    pub contexts: usize,
}

/// The numbers that decisions are made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stock {
    pub target: Target,
    pub started: usize,
    pub entered: usize,
    pub starting: usize,
    pub entering: usize,
    pub device: Use,
}

/// What a keeper does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Makes the context of one that has started.
    Enter,
    /// Starts one.
    Start,
    Nothing,
}

impl Stock {
    /// Contexts first: they are what an attempt waits for. While something is timed nothing is done at all.
    pub(super) fn next(&self) -> Next {
        let Self { target, started, entered, starting, entering, device } = *self;
        match device {
            Use::Timing | Use::Leaving => return Next::Nothing,
            Use::Idle | Use::Validating => {}
        }
        if started > 0 && entered + entering < target.contexts.min(target.workers) {
            return Next::Enter;
        }
        if started + entered + starting + entering < target.workers { Next::Start } else { Next::Nothing }
    }
}

/// Makes stand-bys. The seam behind which the driver is.
pub(super) trait Maker: Send + Sync + 'static {
    type Made: Send + 'static;
    /// Kept while a context is made on a device that no attempt of this node has.
    type Leave: Send;

    /// A process whose driver is initialised.
    fn start(&self) -> Result<Self::Made, String>;
    /// Makes its context.
    fn enter(&self, made: &mut Self::Made) -> Result<(), String>;
    /// Whether the machine is free of timing for a moment; never waits.
    fn leave(&self) -> Option<Self::Leave>;
}

struct State<M: Maker> {
    target: Target,
    started: Vec<M::Made>,
    entered: Vec<M::Made>,
    starting: usize,
    entering: usize,
    /// Workers that were told to end and have not yet.
    ending: usize,
    device: Use,
    resting: bool,
    stopped: bool,
}

impl<M: Maker> State<M> {
    fn stock(&self) -> Stock {
        Stock {
            target: self.target,
            started: self.started.len(),
            entered: self.entered.len(),
            starting: self.starting,
            entering: self.entering,
            device: self.device,
        }
    }
    fn is_quiet(&self) -> bool {
        self.entering == 0 && self.ending == 0
    }
}

struct Shared<M: Maker> {
    maker: M,
    state: Mutex<State<M>>,
    changed: Condvar,
}

impl<M: Maker> Shared<M> {
    fn state(&self) -> MutexGuard<'_, State<M>> {
        // Every change is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a context may go: this node has the device, or nobody times on it.
    fn leave_to_end(&self) -> Option<M::Leave> {
        let mut state = self.state();
        while state.device == Use::Idle && !state.stopped {
            // Asked without the lock, which whoever begins to use the device needs.
            drop(state);
            let leave = self.maker.leave();
            if leave.is_some() {
                return leave;
            }
            state = self.wait(self.state(), ASK_EVERY);
        }
        None
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State<M>>, at_most: Duration) -> MutexGuard<'s, State<M>> {
        let waited = self.changed.wait_timeout(state, at_most).unwrap_or_else(PoisonError::into_inner);
        waited.0
    }
}

/// The stand-bys of one device. Dropping it ends them; the keepers follow.
pub(super) struct Pool<M: Maker> {
    shared: Arc<Shared<M>>,
}

impl<M: Maker> std::fmt::Debug for Pool<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pool").field("stock", &self.shared.state().stock()).finish()
    }
}

/// What somebody took.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken<T> {
    Entered(T),
    /// Its context is still to be made.
    Started(T),
}

impl<M: Maker> Pool<M> {
    /// A pool with `keepers` threads. Where one cannot be made, fewer do the same.
    pub(super) fn new(maker: M, target: Target, keepers: usize) -> Self {
        let state = State {
            target,
            started: Vec::new(),
            entered: Vec::new(),
            starting: 0,
            entering: 0,
            ending: 0,
            device: Use::Idle,
            resting: false,
            stopped: false,
        };
        let shared = Arc::new(Shared { maker, state: Mutex::new(state), changed: Condvar::new() });
        let keepers = if target.workers == 0 { 0 } else { keepers };
        for _ in 0..keepers {
            let shared = Arc::clone(&shared);
            let keeper = std::thread::Builder::new().name("standby".to_owned());
            if let Err(error) = keeper.spawn(move || keep(&shared)) {
                tracing::warn!(%error, "no thread for stand-by workers");
            }
        }
        Self { shared }
    }

    /// One that stands by, the readiest first.
    pub(super) fn take(&self) -> Option<Taken<M::Made>> {
        let mut state = self.shared.state();
        let taken = match state.entered.pop() {
            Some(made) => Some(Taken::Entered(made)),
            None => state.started.pop().map(Taken::Started),
        };
        drop(state);
        self.shared.changed.notify_all();
        taken
    }

    /// Begins to use the device, which this node has. Before timing everything that stirs on it is waited for, until
    /// `give_up` says that nobody wants it any more (`None`).
    pub(super) fn begin(&self, use_: Use, give_up: &dyn Fn() -> bool) -> Option<InUse<M>> {
        let mut state = self.shared.state();
        state.device = use_;
        self.shared.changed.notify_all();
        let guard = InUse { shared: Arc::clone(&self.shared) };
        while use_ == Use::Timing && !state.is_quiet() {
            if give_up() {
                drop(state);
                drop(guard);
                return None;
            }
            state = self.shared.wait(state, ASK_EVERY);
        }
        drop(state);
        Some(guard)
    }

    /// Lets `end` happen beside what comes next, at a moment when nobody times: our own timing waits for it, and it waits for
    /// that of others.
    pub(super) fn end_beside(&self, end: impl FnOnce() + Send + 'static) {
        self.shared.state().ending += 1;
        let ended = Ended { shared: Arc::clone(&self.shared) };
        let ending = std::thread::Builder::new().name("worker-end".to_owned());
        // Where no thread can be made the closure is dropped, and what it holds ends here.
        let _here = ending.spawn(move || {
            let leave = ended.shared.leave_to_end();
            end();
            drop(leave);
            drop(ended);
        });
    }

    /// Waits until every worker that was told to end has.
    pub(super) fn settle(&self) {
        let mut state = self.shared.state();
        while state.ending > 0 {
            state = self.shared.wait(state, ASK_EVERY);
        }
    }

    /// Waits until nothing is left to be made, at most `limit`; how many have a context then.
    pub(super) fn fill(&self, limit: Duration) -> usize {
        let end = crate::clock::monotonic().saturating_add(limit);
        let mut state = self.shared.state();
        loop {
            let stock = state.stock();
            let is_full = stock.next() == Next::Nothing && stock.starting == 0 && stock.entering == 0;
            if is_full || crate::clock::monotonic() >= end {
                return stock.entered;
            }
            state = self.shared.wait(state, ASK_EVERY);
        }
    }

    #[cfg(test)]
    fn stock(&self) -> Stock {
        self.shared.state().stock()
    }
}

impl<M: Maker> Drop for Pool<M> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.stopped = true;
        let gone = (std::mem::take(&mut state.started), std::mem::take(&mut state.entered));
        drop(state);
        self.shared.changed.notify_all();
        drop(gone);
    }
}

struct Ended<M: Maker> {
    shared: Arc<Shared<M>>,
}

impl<M: Maker> Drop for Ended<M> {
    fn drop(&mut self) {
        self.shared.state().ending -= 1;
        self.shared.changed.notify_all();
    }
}

/// The device is in use. Dropping it waits until no context is being made: then the device may be given to others.
pub(super) struct InUse<M: Maker> {
    shared: Arc<Shared<M>>,
}

impl<M: Maker> Drop for InUse<M> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.device = Use::Leaving;
        self.shared.changed.notify_all();
        while !state.is_quiet() {
            state = self.shared.wait(state, ASK_EVERY);
        }
        state.device = Use::Idle;
        drop(state);
        self.shared.changed.notify_all();
    }
}

/// What a keeper does all its life.
fn keep<M: Maker>(shared: &Shared<M>) {
    loop {
        let mut state = shared.state();
        let (next, is_idle) = loop {
            if state.stopped {
                return;
            }
            let next = if state.resting { Next::Nothing } else { state.stock().next() };
            match next {
                Next::Nothing => state = shared.wait(state, REST),
                Next::Enter | Next::Start => break (next, state.device == Use::Idle),
            }
        };
        // Claimed before the lock is let go: whoever begins to time sees it and waits.
        let chosen = match next {
            Next::Nothing => None,
            Next::Start => {
                state.starting += 1;
                None
            }
            Next::Enter => {
                state.entering += 1;
                state.started.pop()
            }
        };
        drop(state);
        let worked = work(shared, next, chosen, is_idle);
        if worked == Worked::Failed {
            rest(shared);
        }
        if worked == Worked::Refused {
            let state = shared.state();
            drop(shared.wait(state, ASK_EVERY));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worked {
    Done,
    Failed,
    /// Somebody else has the machine or the device.
    Refused,
}

fn work<M: Maker>(shared: &Shared<M>, next: Next, chosen: Option<M::Made>, is_idle: bool) -> Worked {
    let leave = if is_idle { shared.maker.leave() } else { None };
    let mut refused = is_idle && leave.is_none();
    let mut failed = None;
    let (mut started, mut entered) = (None, None);
    match (next, chosen) {
        (Next::Enter, Some(made)) if refused => started = Some(made),
        (Next::Enter, Some(mut made)) => match shared.maker.enter(&mut made) {
            Ok(()) => entered = Some(made),
            Err(cause) => failed = Some(cause),
        },
        (Next::Start, _) if !refused => match shared.maker.start() {
            Ok(made) => started = Some(made),
            Err(cause) => failed = Some(cause),
        },
        (Next::Enter | Next::Start | Next::Nothing, _) => {}
    }
    drop(leave);
    let mut state = shared.state();
    match next {
        Next::Enter => state.entering -= 1,
        Next::Start => state.starting -= 1,
        Next::Nothing => refused = true,
    }
    if !state.stopped {
        state.started.extend(started.take());
        state.entered.extend(entered.take());
    }
    drop(state);
    shared.changed.notify_all();
    drop((started, entered));
    match failed {
        Some(cause) => {
            tracing::warn!(cause, "a stand-by worker cannot be made; attempts start their own");
            Worked::Failed
        }
        None if refused => Worked::Refused,
        None => Worked::Done,
    }
}

/// Nobody makes anything for a while.
fn rest<M: Maker>(shared: &Shared<M>) {
    let mut state = shared.state();
    state.resting = true;
    // An early wake-up shortens the rest, which does no harm: the next failure begins another.
    state = shared.wait(state, REST);
    state.resting = false;
}

#[cfg(test)]
mod tests;
