//! Argument types of the commands that read a ledger folder, with help that shows examples.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Which ledger a command reads, and which key it believes.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct LedgerSource {
    /// A ledger folder to read instead of the state folder's: a mirror, a copy, or that of another fleet
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Verifier key to trust [default: the one in the state folder]
    #[arg(long, value_name = "KEY")]
    pub vkey: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum LedgerCommand {
    /// Check bundles, tiles, checkpoint, WAL tail, signatures, signers and blobs
    #[command(after_help = "Example:\n  muster ledger verify --folder copy/ledger --vkey KEY")]
    Verify(LedgerSource),
    /// Print the C2SP verifier key of the log
    #[command(after_help = "Example:\n  muster ledger vkey")]
    Vkey,
    /// Print every key that may sign entries: key id and public key, in hex
    #[command(after_help = "Example:\n  muster ledger signers")]
    Signers,
    /// Print the newest checkpoint; with a coordinator running, after integrating all that is committed
    #[command(after_help = "Example:\n  muster ledger checkpoint")]
    Checkpoint,
    /// Write the proof that a record is in the log (C2SP tlog-proof): its entry, the path, the signed checkpoint
    #[command(
        after_help = "Examples:\n  muster ledger prove 3fa9c1d2b7e0 --out result.tlog-proof\n  muster ledger prove 5 --folder mirror --vkey KEY"
    )]
    Prove(ProveArgs),
    /// Check a proof file without any ledger: exit code 0 if it holds, 4 if not
    #[command(
        after_help = "Examples:\n  muster ledger verify-proof result.tlog-proof --vkey KEY\n  muster ledger verify-proof theirs.tlog-proof --entry envelope.json --vkey KEY"
    )]
    VerifyProof(VerifyProofArgs),
    /// Prove that an older checkpoint is the beginning of a newer one; exit code 4 if the log was forked or cut
    #[command(
        after_help = "Examples:\n  muster ledger consistency --from 200\n  muster ledger consistency --old yesterday.checkpoint --folder mirror --vkey KEY\n\nThe proof is that of RFC 6962, section 2.1.2, from the tiles, checked before it is printed."
    )]
    Consistency(ConsistencyArgs),
    /// Copy a log from a folder or an HTTP server, verifying while copying; goes on where it ended, refuses a fork
    #[command(
        after_help = "Examples:\n  muster ledger mirror --from /mnt/lab/state/ledger --to mirror --vkey KEY\n  muster ledger mirror --from http://ledger.example:8080 --to mirror --vkey KEY\n\nThe mirror is a ledger folder: every command that takes --folder reads it."
    )]
    Mirror(MirrorArgs),
}

#[derive(Debug, Args)]
pub(super) struct MirrorArgs {
    /// A ledger folder, or the address http://HOST:PORT/PATH of its files
    #[arg(long, value_name = "DIR|URL")]
    pub from: String,
    /// Folder of the mirror: an empty one, or the mirror of an earlier run
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Verifier key of the log [default: the one in the state folder]
    #[arg(long, value_name = "KEY")]
    pub vkey: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster bundle 3fa9c1d2b7e0 --out result.tar\n  muster bundle 5 --out result --folder mirror --vkey KEY\n\nIn it: the result, its task, policy, grant, node's enrolment and genesis, each with its proof; all blobs; findings about it; README.txt."
)]
pub(super) struct BundleArgs {
    /// Record id of a result, a unique prefix of at least eight digits, or a leaf index
    pub record: String,
    /// File that ends in .tar, or a new folder
    #[arg(long, value_name = "FILE.tar|DIR")]
    pub out: PathBuf,
    #[command(flatten)]
    pub source: LedgerSource,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  muster verify-bundle result.tar --vkey KEY\n\nExit codes: 0 verified, 4 not."
)]
pub(super) struct VerifyBundleArgs {
    /// A bundle, as .tar or unpacked
    pub file: PathBuf,
    /// Verifier key to trust [default: the one in the state folder]
    #[arg(long, value_name = "KEY")]
    pub vkey: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster audit 3fa9c1d2b7e0\n  muster audit 5 --as-of 1200 --folder mirror --vkey KEY --json"
)]
pub(super) struct AuditArgs {
    /// Record id of a result, a unique prefix of at least eight digits, or a leaf index
    pub record: String,
    /// As the ledger stood at this size
    #[arg(long, value_name = "SIZE")]
    pub as_of: Option<u64>,
    #[command(flatten)]
    pub source: LedgerSource,
}

#[derive(Debug, Args)]
pub(super) struct ProveArgs {
    /// Record id, a unique prefix of at least eight digits, or a leaf index
    pub record: String,
    /// File to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub source: LedgerSource,
}

#[derive(Debug, Args)]
pub(super) struct VerifyProofArgs {
    /// A tlog-proof file
    pub file: PathBuf,
    /// Verifier key to trust [default: the one in the state folder]
    #[arg(long, value_name = "KEY")]
    pub vkey: Option<String>,
    /// The entry that it is about [default: the one that the file carries]
    #[arg(long, value_name = "FILE")]
    pub entry: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("older").required(true).args(["from", "old"]))]
pub(super) struct ConsistencyArgs {
    /// The older size
    #[arg(long, value_name = "SIZE")]
    pub from: Option<u64>,
    /// The newer size [default: that of the signed checkpoint]
    #[arg(long, value_name = "SIZE")]
    pub to: Option<u64>,
    /// A checkpoint that was saved earlier, signed by the same key
    #[arg(long, value_name = "FILE")]
    pub old: Option<PathBuf>,
    #[command(flatten)]
    pub source: LedgerSource,
}
