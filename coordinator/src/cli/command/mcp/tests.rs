//! Conversations with a server that has a state folder in which nothing runs: what is listed, what is refused, and that
//! nothing a client sends ends it.

use super::*;
use crate::cli::output::Output;
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// Bytes that the pipe between client and server holds: more than any conversation of these tests.
const PIPE: usize = 1 << 20;

/// The client's side, in lines of JSON as the protocol has them.
struct Conversation {
    input: WriteHalf<DuplexStream>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    server: JoinHandle<Result<Ending, Refusal>>,
}

impl Conversation {
    fn open(state: &Path) -> Self {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let context = Context { state: state.to_owned(), output: Output::Json };
        let server = tokio::spawn(async move { serve(&context, tokio::io::split(theirs)).await });
        let (output, input) = tokio::io::split(ours);
        Self { input, output: BufReader::new(output).lines(), server }
    }

    /// The same, past its beginning.
    async fn begun(state: &Path) -> Self {
        let mut conversation = Self::open(state);
        let client = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let answer = conversation.ask(0, "initialize", hello).await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "muster", "{answer}");
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
        assert!(answer["result"]["instructions"].as_str().is_some_and(|text| text.contains(RULES)));
        conversation.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        conversation
    }

    async fn send(&mut self, line: &[u8]) {
        self.input.write_all(line).await.unwrap();
        self.input.write_all(b"\n").await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let line = self.output.next_line().await.unwrap().expect("the server answers");
        serde_json::from_str(&line).unwrap()
    }

    async fn ask(&mut self, id: u32, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(request.to_string().as_bytes()).await;
        let answer = self.hear().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Calls a tool, which must refuse, and answers with the refusal.
    async fn refusal(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask(7, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{answer}");
        let said: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(said, result["structuredContent"], "text and structure say the same");
        said["error"].clone()
    }

    async fn end(self) -> Result<Ending, Refusal> {
        let Self { mut input, output, server } = self;
        input.shutdown().await.unwrap();
        drop((input, output));
        server.await.unwrap()
    }
}

#[tokio::test]
async fn tools_are_listed_with_closed_schemas_and_the_rules_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut conversation = Conversation::begun(folder.path()).await;
    let answer = conversation.ask(1, "tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ToolKind::ALL.map(ToolKind::name));
    for tool in tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        assert_eq!(tool["annotations"]["readOnlyHint"], tool["name"] != "submit", "{tool}");
        assert!(HELP.contains(tool["name"].as_str().unwrap()), "the help names {tool}");
    }
    let answer = conversation.ask(2, "resources/list", json!({})).await;
    assert_eq!(answer["result"]["resources"][0]["uri"], RULES);
    let answer = conversation.ask(3, "resources/read", json!({ "uri": RULES })).await;
    let text = answer["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(text.contains("## Rules") && text.contains("A verdict counts only from a record"));
    let answer = conversation.ask(4, "resources/read", json!({ "uri": "file:///etc/passwd" })).await;
    assert_eq!(answer["error"]["code"], -32002, "{answer}");
    assert_eq!(conversation.end().await.unwrap(), Ending::Done);
}

#[tokio::test]
async fn wrong_calls_are_refused_with_stable_codes() {
    let folder = tempfile::tempdir().unwrap();
    let mut conversation = Conversation::begun(folder.path()).await;
    let candidate = json!({ "source": "x" });
    let many: Vec<_> = std::iter::repeat_n(&candidate, 257).collect();
    for (tool, arguments, code) in [
        ("list_tasks", json!({}), "coordinator/not-running"),
        ("list_tasks", json!({ "more": 1 }), "mcp/arguments"),
        ("show_task", json!({}), "mcp/arguments"),
        ("submit", json!({ "task": "t", "candidates": [] }), "mcp/arguments"),
        ("submit", json!({ "task": "t", "candidates": many }), "mcp/arguments"),
        (
            "submit",
            json!({ "task": "t", "candidates": [{ "source": "x", "path": "/etc" }] }),
            "mcp/arguments",
        ),
        (
            "submit",
            json!({ "task": "t", "candidates": [{ "source": "x", "launch": [null] }] }),
            "mcp/arguments",
        ),
        ("submit", json!({ "task": "t", "candidates": [candidate] }), "coordinator/not-running"),
        ("wait", json!({ "submission": "../../x" }), "mcp/arguments"),
        ("wait", json!({ "submission": "00".repeat(32), "seconds": 601 }), "mcp/arguments"),
        ("wait", json!({ "submission": "00".repeat(32), "seconds": -1 }), "mcp/arguments"),
        ("wait", json!({ "submission": "00".repeat(32) }), "coordinator/not-running"),
        ("explain", json!({ "record": "5" }), "ledger/no-key"),
        ("rank", json!({ "task": "t" }), "ledger/no-key"),
        ("record", json!({ "record": 5 }), "mcp/arguments"),
    ] {
        let refusal = conversation.refusal(tool, arguments.clone()).await;
        assert_eq!(refusal["code"], code, "{tool} {arguments}: {refusal}");
        assert!(!refusal["next"].as_str().unwrap().is_empty());
    }
    let answer = conversation.ask(1, "tools/call", json!({ "name": "rm\u{1b}[2J", "arguments": {} })).await;
    assert_eq!(answer["error"]["code"], -32602);
    assert_eq!(answer["error"]["message"], "unknown tool: rm[2J");
    assert_eq!(conversation.end().await.unwrap(), Ending::Done);
}

#[tokio::test]
async fn what_is_no_request_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut conversation = Conversation::begun(folder.path()).await;
    // What is no JSON has no id to answer to, and is passed over, as by the other servers of the protocol.
    let deep = "[".repeat(100_000);
    for line in [&b"no json"[..], b"\xff\xfe", b"{\"jsonrpc\":", b"", deep.as_bytes()] {
        conversation.send(line).await;
    }
    assert_eq!(conversation.ask(1, "ping", json!({})).await["result"], json!({}));
    for line in [
        &b"{\"jsonrpc\":\"2.0\",\"id\":9}"[..],
        b"[]",
        b"17",
        b"{\"jsonrpc\":\"1.0\",\"id\":9,\"method\":\"ping\"}",
    ] {
        conversation.send(line).await;
        let answer = conversation.hear().await;
        assert_eq!(answer["error"]["code"], -32600, "{}: {answer}", String::from_utf8_lossy(line));
    }
    let answer = conversation.ask(2, "tools/forge", json!({})).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    let answer = conversation.ask(3, "tools/call", json!({ "arguments": {} })).await;
    assert!(answer["error"]["code"].is_i64(), "{answer}");
    assert_eq!(conversation.ask(4, "ping", json!({})).await["result"], json!({}));
    assert_eq!(conversation.end().await.unwrap(), Ending::Done);
}

#[tokio::test]
async fn a_client_that_says_nothing_ends_it_quietly_and_one_that_does_not_begin_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Conversation::open(folder.path()).end().await.unwrap(), Ending::Done);
    let mut conversation = Conversation::open(folder.path());
    conversation.send(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    let refusal = conversation.end().await.unwrap_err();
    assert_eq!(refusal.code, "mcp/handshake", "{refusal}");
}

#[test]
fn an_answer_that_is_too_large_is_refused() {
    let large = answered(ToolKind::Record, Ok(Value::String("x".repeat(ANSWER_MAX))));
    let code = large.structured_content.map(|said| said["error"]["code"].clone());
    assert_eq!((large.is_error, code), (Some(true), Some("mcp/too-large".into())));
}
