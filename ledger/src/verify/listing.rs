//! Which tiles and bundles a folder holds, the superseded partial ones included.

use super::finding::{Fault, Finding};
use crate::log::tile::{TileCoordinate, TileKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Deepest folder that is entered: an index of 64 bits has seven groups.
const DEPTH_MAX: usize = 12;

/// The widths that exist of each tile and bundle.
#[derive(Debug, Default)]
pub(super) struct Listing {
    widths: BTreeMap<(TileKind, u64), BTreeSet<u16>>,
}

impl Listing {
    /// Lists `tile/` below `root`. What does not belong there is a finding.
    pub(super) fn read(root: &Path, findings: &mut Vec<Finding>) -> Self {
        let mut listing = Self::default();
        // A log without entries has no tiles at all.
        if root.join("tile").exists() {
            listing.enter(root, "tile", 0, findings);
        }
        listing
    }

    fn enter(&mut self, root: &Path, relative: &str, depth: usize, findings: &mut Vec<Finding>) {
        let children = match fs::read_dir(root.join(relative)) {
            Ok(children) => children,
            Err(error) => {
                let fault = Fault::Unreadable { kind: error.kind(), cause: error.to_string() };
                return findings.push(Finding::file(relative, fault));
            }
        };
        let mut names: Vec<_> = children.flatten().collect();
        names.sort_by_key(fs::DirEntry::file_name);
        for child in names {
            let path = format!("{relative}/{}", child.file_name().to_string_lossy());
            let is_directory = child.file_type().is_ok_and(|kind| kind.is_dir());
            match TileCoordinate::parse(&path) {
                Some(TileCoordinate { kind, index, width }) if !is_directory => {
                    self.widths.entry((kind, index)).or_default().insert(width);
                }
                Some(_) | None if is_directory && depth < DEPTH_MAX => {
                    self.enter(root, &path, depth + 1, findings);
                }
                Some(_) | None => findings.push(Finding::file(path, Fault::Stray)),
            }
        }
    }

    /// Takes the widths of one tile out of the listing, smallest first.
    pub(super) fn take(&mut self, kind: TileKind, index: u64) -> BTreeSet<u16> {
        self.widths.remove(&(kind, index)).unwrap_or_default()
    }

    /// Returns one file for [`Self::rest`].
    pub(super) fn put_back(&mut self, coordinate: TileCoordinate) {
        let TileCoordinate { kind, index, width } = coordinate;
        self.widths.entry((kind, index)).or_default().insert(width);
    }

    /// What nobody took.
    pub(super) fn rest(self) -> impl Iterator<Item = TileCoordinate> {
        self.widths.into_iter().flat_map(|((kind, index), widths)| {
            widths.into_iter().map(move |width| TileCoordinate { kind, index, width })
        })
    }

    /// How many entries the bundles hold at most, for want of a checkpoint that says so.
    pub(super) fn entries_at_most(&self) -> u64 {
        let bundles = self.widths.range((TileKind::Entries, 0)..=(TileKind::Entries, u64::MAX));
        bundles
            .filter_map(|((_, index), widths)| {
                index.checked_mul(256)?.checked_add(u64::from(*widths.last()?))
            })
            .max()
            .unwrap_or(0)
    }
}
