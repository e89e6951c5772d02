//! What a child sees of the file system: which folders and files, at their usual paths, and which links lead to them.

use super::handover::Order;
use super::request::Profile;
use super::toolchain::{LOADERS, RUNTIME};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Links on one path; the kernel's own limit (path_resolution(7)).
const LINKS_MAX: u32 = 40;
/// On the way to compilers: Debian and its kin point through the first, and scripts name their shell by the other.
const TOOL_LINKS: [&str; 2] = ["/etc/alternatives", "/bin"];

/// How one path appears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    ReadOnly,
    Writable,
    /// A device node.
    Device,
    /// An empty folder in memory, of limited size.
    Private,
}

/// What lies at a path of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Folder,
    File,
    Link(PathBuf),
    Nothing,
}

/// The plan of a child's root folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    /// By path without links; a folder comes before what lies in it.
    pub(super) parts: BTreeMap<PathBuf, (Part, bool)>,
    /// Links by path, with their targets as they are written.
    pub(super) links: BTreeMap<PathBuf, PathBuf>,
}

impl View {
    /// The view of an order. `look` says what lies at a path.
    pub(super) fn plan(order: &Order, look: &dyn Fn(&Path) -> Found) -> Self {
        let mut view = Self::default();
        let mut place = |path: &Path, part| view.place(path, part, look);
        if may_use_tmp(order.profile) {
            place(Path::new("/tmp"), Part::Private);
        }
        place(Path::new("/dev/null"), Part::Device);
        for path in order.readable.iter().chain(&order.executable) {
            place(Path::new(path), Part::ReadOnly);
        }
        place(Path::new(&order.program), Part::ReadOnly);
        match order.profile {
            Profile::Compiler | Profile::Harness => {
                TOOL_LINKS.iter().for_each(|path| place(Path::new(path), Part::ReadOnly));
            }
            Profile::CpuWorker
            | Profile::Worker
            | Profile::CudaWorker
            | Profile::CudaScreen
            | Profile::Screen => {
                LOADERS.iter().chain(&RUNTIME).for_each(|path| place(Path::new(path), Part::ReadOnly));
            }
        }
        for path in &order.devices {
            place(Path::new(path), Part::Device);
        }
        place(Path::new(&order.folder), Part::Writable);
        view.prune();
        view
    }

    /// Follows `path` from the root, noting the links on the way, and adds what it leads to. A path that leads nowhere
    /// adds nothing, as in Landlock's ruleset.
    fn place(&mut self, path: &Path, part: Part, look: &dyn Fn(&Path) -> Found) {
        // `/proc` is the child's own.
        if path.starts_with("/proc") {
            return;
        }
        let mut rest = reversed(path);
        let (mut at, mut hops) = (PathBuf::from("/"), 0);
        while let Some(name) = rest.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            match look(&next) {
                Found::Nothing => return,
                Found::Link(target) => {
                    hops += 1;
                    if hops > LINKS_MAX {
                        return;
                    }
                    if target.is_absolute() {
                        at = PathBuf::from("/");
                    }
                    rest.extend(reversed(&target));
                    self.links.insert(next, target);
                }
                found @ (Found::Folder | Found::File) => {
                    if rest.is_empty() {
                        let entry = self.parts.entry(next).or_insert((part, found == Found::Folder));
                        entry.0 = entry.0.max(part);
                        return;
                    }
                    at = next;
                }
            }
        }
    }

    /// Leaves out what a part above shows already.
    fn prune(&mut self) {
        let shows = |part: Part| part == Part::ReadOnly || part == Part::Writable;
        let folders: Vec<PathBuf> =
            self.parts.iter().filter(|(_, (part, _))| shows(*part)).map(|(path, _)| path.clone()).collect();
        let shown = |path: &Path| folders.iter().any(|folder| path != folder && path.starts_with(folder));
        self.parts.retain(|path, (part, _)| *part != Part::ReadOnly || !shown(path));
        self.links.retain(|path, _| !shown(path));
    }
}

/// Whether a child has `/tmp`: one that runs host code of a candidate writes nowhere.
pub(super) fn may_use_tmp(profile: Profile) -> bool {
    match profile {
        Profile::Compiler | Profile::Harness => true,
        Profile::CpuWorker
        | Profile::Worker
        | Profile::CudaWorker
        | Profile::CudaScreen
        | Profile::Screen => false,
    }
}

fn reversed(path: &Path) -> Vec<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    let mut names: Vec<OsString> = path.components().filter_map(name).collect();
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with merged `/usr`, as most are.
    fn look(path: &Path) -> Found {
        match path.to_str().unwrap() {
            "/lib" => Found::Link("usr/lib".into()),
            "/round" => Found::Link("/round".into()),
            "/usr/lib/up" => Found::Link("../../srv/data".into()),
            "/absent" | "/usr/local/lib" => Found::Nothing,
            "/dev/null" | "/usr/lib/loader.so" => Found::File,
            _ => Found::Folder,
        }
    }

    fn view(wanted: &[(&str, Part)]) -> View {
        let mut view = View::default();
        wanted.iter().for_each(|(path, part)| view.place(Path::new(path), *part, &look));
        view.prune();
        view
    }

    #[test]
    fn links_on_the_way_are_kept_and_what_a_folder_shows_is_not_placed_again() {
        let view = view(&[
            ("/lib", Part::ReadOnly),
            ("/usr/lib/loader.so", Part::ReadOnly),
            ("/usr", Part::ReadOnly),
            ("/dev/null", Part::Device),
            ("/tmp", Part::Private),
            ("/tmp/job/1", Part::Writable),
            ("/tmp/job/1", Part::ReadOnly),
        ]);
        let parts: Vec<_> =
            view.parts.iter().map(|(path, (part, _))| (path.to_str().unwrap(), *part)).collect();
        let expected = [
            ("/dev/null", Part::Device),
            ("/tmp", Part::Private),
            ("/tmp/job/1", Part::Writable),
            ("/usr", Part::ReadOnly),
        ];
        assert_eq!(parts, expected);
        assert_eq!(view.links, BTreeMap::from([("/lib".into(), "usr/lib".into())]));
    }

    #[test]
    fn a_writable_folder_inside_a_shown_one_stays_and_links_are_followed_up_and_down() {
        let view = view(&[("/usr", Part::ReadOnly), ("/usr/lib/up/deep", Part::Writable)]);
        assert_eq!(view.parts[Path::new("/srv/data/deep")], (Part::Writable, true));
        assert!(view.links.is_empty(), "shown with /usr: {:?}", view.links);
    }

    #[test]
    fn what_does_not_exist_or_turns_in_circles_or_is_proc_adds_nothing() {
        let view = view(&[
            ("/absent/x", Part::ReadOnly),
            ("/round/x", Part::ReadOnly),
            ("/proc/self", Part::ReadOnly),
        ]);
        assert!(view.parts.is_empty(), "{view:?}");
    }
}
