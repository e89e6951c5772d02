//! Parameter search over the template in the campaign's folder.

use super::{Draft, Proposed, View};
use crate::cli::command::optimize::folder::{Files, Folder, at};
use crate::cli::operand;
use crate::optimizer::attempt::{Attempt, Origin, Verdict};
use crate::optimizer::campaign::StopReason;
use crate::optimizer::search::{Next, Score, Strategy, Tried, next};
use crate::optimizer::template::Template;
use fleet_config::refusal::Refusal;
use std::path::Path;

/// A template with its source and the way through its space.
#[derive(Debug)]
pub(in crate::cli::command::optimize) struct Search {
    template: Template,
    source: String,
    strategy: Strategy,
}

/// Reads the template at `path` with its source, checks both, and answers with the number of its points and the files that a
/// campaign keeps: its own copy, so that it can be resumed whatever becomes of these.
pub(in crate::cli::command::optimize) fn keep_template(path: &Path) -> Result<(usize, Files), Refusal> {
    operand::exists(path, "template/missing-file", "name a template with --template")?;
    let text = text(path)?;
    let template = Template::parse(&text, &path.display().to_string())?;
    let source = path.with_file_name(&template.file);
    operand::exists(&source, "template/missing-file", "correct `file` in the template")?;
    let source = self::text(&source)?;
    template.check(&source)?;
    let files = vec![
        ("template/template.toml".to_owned(), text.into_bytes()),
        ("template/source.cu".to_owned(), source.into_bytes()),
    ];
    Ok((template.points().len(), files))
}

fn text(path: &Path) -> Result<String, Refusal> {
    let bytes = std::fs::read(path).map_err(at(path))?;
    String::from_utf8(bytes).map_err(|error| {
        let place = path.display().to_string();
        Refusal::new("template/utf8", place, error.to_string(), "save the file as UTF-8 text")
    })
}

impl Search {
    /// Over the copy in the campaign's folder.
    pub(super) fn open(folder: &Folder, strategy: Strategy) -> Result<Self, Refusal> {
        let read = |name: &str| -> Result<String, Refusal> {
            let bytes = folder.read(name)?.unwrap_or_default();
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let template = Template::parse(&read("template/template.toml")?, "template/template.toml")?;
        let source = read("template/source.cu")?;
        template.check(&source)?;
        Ok(Self { template, source, strategy })
    }

    pub(super) fn propose(&self, view: &View<'_>) -> Proposed {
        let points = self.template.points();
        let tried: Vec<Tried> = view.attempts.iter().filter_map(|attempt| self.tried(attempt)).collect();
        match next(self.strategy, points.len(), &tried) {
            Next::Wait => Proposed::Wait,
            Next::Exhausted => Proposed::Stop(StopReason::Exhausted),
            Next::Measure { point, rung } => {
                let point = points[point].clone();
                let rendered = self.template.render(&self.source, &point);
                Proposed::Draft(Box::new(Draft {
                    name: rendered.name,
                    point,
                    rung: Some(rung),
                    files: vec![
                        ("source.cu".to_owned(), rendered.source.into_bytes()),
                        ("source.toml".to_owned(), rendered.sidecar.into_bytes()),
                    ],
                    ..Draft::default()
                }))
            }
        }
    }

    fn tried(&self, attempt: &Attempt) -> Option<Tried> {
        if attempt.proposal.origin != Origin::Search {
            return None;
        }
        let point = self.template.points().iter().position(|point| *point == attempt.proposal.point)?;
        let score = match &attempt.measured {
            None => Score::Pending,
            Some(measured) => match (measured.verdict, measured.ratio) {
                (Verdict::Passed, Some(ratio)) => Score::Timed(ratio.ratio),
                (Verdict::Passed | Verdict::Failed | Verdict::Masked, _) => Score::Failed,
            },
        };
        Some(Tried { point, rung: attempt.proposal.rung, score })
    }
}
