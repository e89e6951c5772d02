//! Files that were named on the command line: one that is missing is told by the path that was asked for.

use fleet_config::refusal::Refusal;
use std::path::Path;

/// Refuses a path at which there is nothing, by the path as typed and the folder that it was looked for in.
pub(super) fn exists(path: &Path, code: &'static str, next: impl Into<String>) -> Result<(), Refusal> {
    match path.try_exists() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Refusal::new(code, path.display().to_string(), missing(path), next)),
        Err(error) => {
            Err(Refusal::new(code, path.display().to_string(), format!("cannot be looked at: {error}"), next))
        }
    }
}

fn missing(path: &Path) -> String {
    match std::env::current_dir() {
        Ok(folder) if path.is_relative() => {
            format!("there is no such file; the working folder is {}", folder.display())
        }
        Ok(_) | Err(_) => "there is no such file".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_told_by_the_path_that_was_asked_for_and_the_working_folder() {
        let refusal = exists(Path::new("no/such.cu"), "candidate/missing-file", "check it").unwrap_err();
        let folder = std::env::current_dir().unwrap();
        assert_eq!((refusal.code.as_ref(), refusal.place.as_str()), ("candidate/missing-file", "no/such.cu"));
        assert!(refusal.cause.ends_with(&folder.display().to_string()), "{refusal}");
        let absolute = folder.join("no/such.cu");
        let refusal = exists(&absolute, "candidate/missing-file", "check it").unwrap_err();
        assert_eq!(refusal.place, absolute.display().to_string());
        assert!(exists(Path::new("Cargo.toml"), "candidate/missing-file", "check it").is_ok());
    }
}
