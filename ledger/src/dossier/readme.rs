//! The page in a bundle that says to a person what this is and how to check it, with our tool and without.

use super::Manifest;

/// The text for the bundle that `manifest` lists.
pub(super) fn readme(manifest: &Manifest) -> String {
    let Manifest { format, origin, record, leaf, tree_size, root, entries, missing } = manifest;
    let list: Vec<String> = entries
        .iter()
        .map(|entry| format!("  {:>8}  {:<16} {}", entry.leaf, entry.kind, entry.record))
        .collect();
    let missing = match missing.len() {
        0 => "Every blob that these entries lead to is here.".to_owned(),
        count => format!(
            "{count} blobs that these entries lead to were not in the ledger; bundle.json lists them."
        ),
    };
    format!(
        "Evidence bundle ({format})

The result
  record {record}
  entry {leaf} of the log {origin}
  under the checkpoint of {tree_size} entries, root {root}

You need the log's verifier key from somebody you trust; none is in here, since a bundle cannot vouch for itself.

Check it with one command, without a network and without a ledger:
  muster verify-bundle FILE --vkey KEY

Check it without our program:
  1. `checkpoint` is a signed note (c2sp.org/signed-note) over origin, size and root. Check it with the verifier key.
  2. Each file in `proofs/` is a c2sp.org/tlog-proof. The base64 after `extra` is the entry itself; its leaf hash is
     SHA-256(0x00, entry), and the hashes lead from it to the root (RFC 9162, section 2.1.3.2).
  3. Each entry is a DSSE envelope; `{envelopes}` has them one a line for DSSE tools. Entry 0 names the
     operator's key, `node-enrol` entries name the keys of nodes; the result is signed by its node, all else here by
     the operator. The payloads are in-toto Statements.
  4. Blobs lie under their blake3; `b3sum` and `sha256sum` give both digests that the entries name.
  5. The numbers of the result come from the samples, zstd-compressed JSON, one blob for each timed case.

Entries in here, by place in the log
{list}

{missing}

What it does not show: whether later entries judge this result (findings, revocations), whether others were shown the
same log, and when the checkpoint was signed. Ask the log itself, and compare its newest checkpoint with this one
(`muster ledger consistency --old checkpoint`). A signature says who measured, not that the measurement is right.
",
        envelopes = super::ENVELOPES,
        list = list.join("\n"),
    )
}
