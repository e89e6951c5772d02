//! The tools as a client sees them: names, descriptions, and schemas of their arguments (JSON Schema 2020-12).

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// Longest wait of one call in seconds: clients give up on calls that take longer.
pub(super) const WAIT_MAX: u64 = 600;

/// A wait where nobody said how long: below the minute after which many clients give up.
pub(super) const WAIT_DEFAULT: u64 = 50;

/// Candidates of one call.
pub(super) const CANDIDATES_MAX: usize = 256;

/// What can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolKind {
    ListTasks,
    ShowTask,
    Submit,
    Wait,
    Explain,
    Rank,
    Record,
}

impl ToolKind {
    pub(super) const ALL: [Self; 7] =
        [Self::ListTasks, Self::ShowTask, Self::Submit, Self::Wait, Self::Explain, Self::Rank, Self::Record];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ListTasks => "list_tasks",
            Self::ShowTask => "show_task",
            Self::Submit => "submit",
            Self::Wait => "wait",
            Self::Explain => "explain",
            Self::Rank => "rank",
            Self::Record => "record",
        }
    }

    /// The tool with its schema.
    pub(super) fn described(self) -> Tool {
        let annotations = match self {
            Self::Submit => ToolAnnotations::new().read_only(false).destructive(false),
            Self::ListTasks | Self::ShowTask | Self::Wait | Self::Explain | Self::Rank | Self::Record => {
                ToolAnnotations::new().read_only(true)
            }
        };
        Tool::new(self.name(), self.description(), self.schema())
            .with_annotations(annotations.open_world(false))
    }

    fn description(self) -> &'static str {
        match self {
            Self::ListTasks => "The tasks of this fleet: name, id, summary.",
            Self::ShowTask => {
                "One task: signature, dimensions, open cases, tolerance, limits, and the baseline's source and launch, \
                 from which a candidate starts. Sealed cases are never shown."
            }
            Self::Submit => {
                "Submits candidates (source text, for the task's entry) to device classes. Answers at once with the \
                 submission's id, which `wait` takes, and with warnings. The same key with the same content is the same \
                 submission."
            }
            Self::Wait => {
                "Waits until every cell of a submission is over, or until the given seconds have passed; tells progress \
                 meanwhile. Answers with the cells: state, status, and the leaf of the record, which `explain` takes. \
                 Where `over` is false, call it again."
            }
            Self::Explain => {
                "One result as feedback: status, first cause with the source line, the pattern of a wrong answer, \
                 resources, each case, ratios with 95 % intervals, and what to try next."
            }
            Self::Rank => "The ranking of a task by class of comparable results, computed from the ledger.",
            Self::Record => {
                "One record as it is in the ledger, with environment, evidence, candidate and log. What the candidate \
                 printed is quoted in `prints`, each line behind `| `."
            }
        }
    }

    fn schema(self) -> JsonObject {
        let record = json!({
            "type": "string",
            "description": "Record id, a unique prefix of at least eight digits, or a leaf index such as \"5\""
        });
        let task = json!({ "type": "string", "description": "Name, id, or unique prefix of the id" });
        match self {
            Self::ListTasks => object(&[], json!({})),
            Self::ShowTask => object(&["task"], json!({ "task": task })),
            Self::Submit => object(&["task", "candidates"], submit(&task)),
            Self::Wait => object(
                &["submission"],
                json!({
                    "submission": { "type": "string", "description": "The whole id, from `submit`" },
                    "seconds": {
                        "type": "integer", "minimum": 0, "maximum": WAIT_MAX, "default": WAIT_DEFAULT,
                        "description": "How long to wait at most"
                    }
                }),
            ),
            Self::Explain | Self::Record => object(&["record"], json!({ "record": record })),
            Self::Rank => object(
                &["task"],
                json!({
                    "task": task,
                    "as_of": {
                        "type": "integer", "minimum": 0,
                        "description": "As the ledger stood at this size; now when not given"
                    }
                }),
            ),
        }
    }
}

fn submit(task: &Value) -> Value {
    let launch = json!({
        "type": "object",
        "description": "As [launch] of a candidate's sidecar: grid and block as lists of expressions over the task's \
                        dimensions, such as {\"grid\": [\"ceil_div(n, 64)\"], \"block\": [64]}; launched as the baseline \
                        when not given"
    });
    let candidate = object(
        &["source"],
        json!({
            "source": { "type": "string", "description": "CUDA C++ with the task's entry" },
            "name": { "type": "string", "description": "For people; made from the source's hash when not given" },
            "launch": launch,
            "model": { "type": "string", "description": "Which model wrote it" },
            "licence": { "type": "string", "description": "SPDX expression" },
            "parent": { "type": "string", "description": "Whole id of the candidate that it was made from" }
        }),
    );
    json!({
        "task": task,
        "candidates": { "type": "array", "minItems": 1, "maxItems": CANDIDATES_MAX, "items": candidate },
        "on": {
            "type": "array", "items": { "type": "string" },
            "description": "Device classes such as cpu:x86-64-v3 or nvidia:sm_90a; all of the fleet when not given"
        },
        "policy": { "type": "string", "description": "Measurement policy; the default of the class when not given" },
        "fresh": { "type": "boolean", "description": "An earlier result may not answer" },
        "key": { "type": "string", "description": "Idempotency key" }
    })
}

/// A schema of an object that has these members and no others.
fn object(required: &[&str], properties: Value) -> JsonObject {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    schema.insert("required".to_owned(), required.iter().copied().collect());
    schema.insert("additionalProperties".to_owned(), false.into());
    schema
}
