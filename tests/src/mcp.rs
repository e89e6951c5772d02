//! A client of `muster mcp`: the lines that an agent's program would send, one by one, with nothing of ours between.

use crate::fleet::Fleet;
use crate::process::binaries;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// Lines that may wait to be read.
const LINES_MAX: usize = 1024;

/// A conversation with a server of its own; killed when dropped.
#[derive(Debug)]
pub struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    patience: Duration,
    next_id: u32,
    /// Messages of progress that came so far.
    pub progress: Vec<String>,
}

impl Agent {
    /// Starts `muster mcp` on the fleet's state folder and begins a conversation under `name`. An answer that does not
    /// come within `patience` fails the test.
    #[expect(clippy::disallowed_methods, reason = "the harness starts real processes")]
    pub fn start(fleet: &Fleet, name: &str, patience: Duration) -> Self {
        let mut child = Command::new(binaries().join("muster"))
            .args(["--state", fleet.state().to_str().expect("UTF-8"), "mcp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("muster starts");
        let input = child.stdin.take();
        let output = child.stdout.take().expect("a pipe");
        let (sender, lines) = sync_channel(LINES_MAX);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut agent = Self { child, input, lines, patience, next_id: 0, progress: Vec::new() };
        let client = json!({ "name": name, "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let answer = agent.ask("initialize", hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "muster", "{answer}");
        agent.say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
        agent
    }

    /// Sends one line, whatever it is.
    pub fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the conversation has not ended");
        writeln!(input, "{line}").and_then(|()| input.flush()).expect("the server reads");
    }

    /// The next message that is no progress.
    pub fn hear(&mut self) -> Value {
        loop {
            let line = self.lines.recv_timeout(self.patience).expect("the server answers");
            let message: Value =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if message["method"] == "notifications/progress" {
                let text = message["params"]["message"].as_str().expect("a message");
                self.progress.push(text.to_owned());
                assert_eq!(message["params"]["progress"], self.progress.len() as f64, "it grows");
                continue;
            }
            return message;
        }
    }

    /// Sends a request without waiting for its answer.
    pub fn request(&mut self, method: &str, params: Value) {
        self.next_id += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params });
        self.say(&request.to_string());
    }

    /// The answer to the newest request.
    pub fn answer(&mut self) -> Value {
        let answer = self.hear();
        assert_eq!(answer["id"], self.next_id, "{answer}");
        answer
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.request(method, params);
        self.answer()
    }

    /// Calls a tool, which must not refuse.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments }));
        Self::content(&answer)
    }

    /// What a tool answered with.
    pub fn content(answer: &Value) -> Value {
        assert_eq!(answer["result"]["isError"], false, "{answer:#}");
        answer["result"]["structuredContent"].clone()
    }

    /// Calls a tool, which must refuse, and answers with the code.
    pub fn refusal(&mut self, tool: &str, arguments: Value) -> String {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert_eq!(answer["result"]["isError"], true, "{answer:#}");
        answer["result"]["structuredContent"]["error"]["code"].as_str().expect("a code").to_owned()
    }

    /// Closes the server's input and answers with how it ended.
    pub fn end(mut self) -> ExitStatus {
        drop(self.input.take());
        self.child.wait().expect("a child can be waited for")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, which is fine.
        let _ended = self.child.kill();
        let _collected = self.child.wait();
    }
}
