//! Where rows of an export go: a file that is there whole or not at all, or standard output.

use fleet_config::refusal::Refusal;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// An export under way.
#[derive(Debug)]
pub(super) struct Sink {
    rows: Target,
    leaves: Option<Target>,
    is_unread: bool,
}

#[derive(Debug)]
struct Target {
    writer: BufWriter<Output>,
    /// The name it gets when it is whole, and the one it has until then.
    file: Option<(PathBuf, PathBuf)>,
}

#[derive(Debug)]
enum Output {
    File(File),
    Standard(io::Stdout),
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Standard(output) => output.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Standard(output) => output.flush(),
        }
    }
}

impl Sink {
    /// To `path`, else to standard output; with a list of leaves beside it where it has a file and needs one.
    pub(super) fn open(path: Option<&Path>, has_leaves: bool) -> Result<Self, Refusal> {
        let rows = match path {
            Some(path) => Target::file(path)?,
            None => Target { writer: BufWriter::new(Output::Standard(io::stdout())), file: None },
        };
        let leaves =
            path.filter(|_| has_leaves).map(|path| Target::file(&beside(path, "leaves"))).transpose()?;
        Ok(Self { rows, leaves, is_unread: false })
    }

    /// Writes whole rows.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        match self.rows.writer.write_all(bytes) {
            // A reader that has seen enough (`| head`) is no fault of anybody.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && self.rows.file.is_none() => {
                self.is_unread = true;
                Ok(())
            }
            Err(error) => Err(self.rows.refusal(&error)),
            Ok(()) => Ok(()),
        }
    }

    /// Whether nobody reads any more.
    pub(super) fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Notes the place of an envelope that was written.
    pub(super) fn note_leaf(&mut self, line: &str) -> Result<(), Refusal> {
        match &mut self.leaves {
            Some(leaves) => leaves.writer.write_all(line.as_bytes()).map_err(|error| leaves.refusal(&error)),
            None => Ok(()),
        }
    }

    /// Gives the files their names; answers with both.
    pub(super) fn finish(self) -> Result<(Option<String>, Option<String>), Refusal> {
        let rows = self.rows.finish()?;
        let leaves = self.leaves.map(Target::finish).transpose()?.flatten();
        Ok((rows, leaves))
    }
}

impl Target {
    fn file(path: &Path) -> Result<Self, Refusal> {
        let part = beside(path, "part");
        let file = File::create(&part).map_err(|error| refusal(&part.display().to_string(), &error))?;
        Ok(Self { writer: BufWriter::new(Output::File(file)), file: Some((path.to_owned(), part)) })
    }

    fn finish(mut self) -> Result<Option<String>, Refusal> {
        match self.writer.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && self.file.is_none() => {
                return Ok(None);
            }
            Err(error) => return Err(self.refusal(&error)),
            Ok(()) => {}
        }
        let Some((path, part)) = &self.file else { return Ok(None) };
        if let Output::File(file) = self.writer.get_ref() {
            file.sync_all().map_err(|error| self.refusal(&error))?;
        }
        fs::rename(part, path).map_err(|error| self.refusal(&error))?;
        Ok(Some(path.display().to_string()))
    }

    fn refusal(&self, error: &io::Error) -> Refusal {
        let place = self
            .file
            .as_ref()
            .map_or_else(|| "standard output".to_owned(), |(_, part)| part.display().to_string());
        refusal(&place, error)
    }
}

fn refusal(place: &str, error: &io::Error) -> Refusal {
    Refusal::new(
        "export/write",
        place,
        error.to_string(),
        "name a file in a folder that takes files and has room",
    )
}

/// A path beside `path`: its whole name, a dot, and `ending`.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}
