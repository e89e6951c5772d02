//! The nodes that `muster up` keeps in a state folder: where they lie, which process each is, and who it is.

use crate::cli::process::Process;
use crate::state::read_private;
use fleet_config::identity::SecretKey;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Ending of the file beside a node's folder (which is the node's alone) that says with which level it was started.
const LEVEL: &str = "level";

/// One of them, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnNode {
    pub name: String,
    nodes: PathBuf,
}

impl OwnNode {
    /// The node of `level`; the empty text is the machine's best one.
    pub(super) fn of_level(state: &Path, level: &str) -> Self {
        let name = if level.is_empty() { "local".to_owned() } else { level.replace(':', "-") };
        Self { name, nodes: state.join("nodes") }
    }

    /// Every node that was ever started here, by name.
    pub(super) fn all(state: &Path) -> Vec<Self> {
        let nodes = state.join("nodes");
        let folders = entries(&nodes).into_iter().filter(|path| path.is_dir());
        let name = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut names: Vec<String> = folders.filter_map(name).collect();
        names.sort();
        names.into_iter().map(|name| Self { name, nodes: nodes.clone() }).collect()
    }

    /// Its state folder.
    pub(super) fn folder(&self) -> PathBuf {
        self.nodes.join(&self.name)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder().join("node.log")
    }

    /// The file with its process.
    pub(super) fn pid(&self) -> PathBuf {
        self.folder().join("pid")
    }

    /// Its process as it was started last, alive or not.
    pub(super) fn process(&self) -> Option<Process> {
        Process::read(&self.pid())
    }

    /// Its process if that runs.
    pub(super) fn running(&self) -> Option<Process> {
        self.process().filter(Process::is_alive)
    }

    /// Its node id, once it has a key. A name proves nothing: any node may call itself so.
    pub(super) fn id(&self) -> Option<String> {
        let bytes = read_private(&self.folder().join("keys/signing")).ok().flatten()?;
        let seed: Zeroizing<[u8; 32]> = Zeroizing::new(bytes.as_slice().try_into().ok()?);
        Some(SecretKey::from_seed(&seed).public().node_id().to_string())
    }

    /// Remembers the level for the next `muster up`.
    pub(super) fn note_level(&self, level: &str) -> std::io::Result<()> {
        std::fs::write(self.nodes.join(format!("{}.{LEVEL}", self.name)), level)
    }
}

/// The levels of the nodes that were started here before.
pub(super) fn noted_levels(state: &Path) -> Vec<String> {
    let noted = entries(&state.join("nodes")).into_iter();
    let noted = noted.filter(|path| path.extension().is_some_and(|ending| ending == LEVEL));
    let mut levels: Vec<String> = noted.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    levels.sort();
    levels
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_again_by_their_folders_and_levels() {
        let state = tempfile::tempdir().unwrap();
        assert!(OwnNode::all(state.path()).is_empty() && noted_levels(state.path()).is_empty());
        let levels = ["cpu:x86-64-v3", "cpu:x86-64-v2"];
        for level in levels {
            let node = OwnNode::of_level(state.path(), level);
            std::fs::create_dir_all(node.folder()).unwrap();
            node.note_level(level).unwrap();
            assert!(node.running().is_none() && node.id().is_none());
        }
        let names: Vec<_> = OwnNode::all(state.path()).into_iter().map(|node| node.name).collect();
        assert_eq!(names, ["cpu-x86-64-v2", "cpu-x86-64-v3"], "the notes are no nodes");
        assert_eq!(noted_levels(state.path()), ["cpu:x86-64-v2", "cpu:x86-64-v3"]);
        assert_eq!(OwnNode::of_level(state.path(), "").name, "local");
    }
}
