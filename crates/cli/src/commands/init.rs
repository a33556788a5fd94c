//! `weir init`: a project that builds, chats and passes its tests at once, offline.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::commands::Context;
use crate::output::Out;
use crate::report::Outcome;
use crate::scaffold::{NewFile, ScaffoldError, make};
use crate::schemas;
use crate::show::{printable, shell};
use crate::store::blocking;

/// The arguments of `weir init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir init my-agents\n  weir init .")]
pub(crate) struct Args {
    /// The project's directory; made if it is not there.
    #[arg(default_value = ".")]
    directory: PathBuf,
}

#[derive(Serialize)]
struct Document {
    directory: PathBuf,
    files: Vec<String>,
}

const FILES: [(&str, &str); 11] = [
    ("weir.yaml", include_str!("../../templates/init/weir.yaml")),
    ("agents/helper/spec.yaml", include_str!("../../templates/init/agents/helper/spec.yaml")),
    ("agents/helper/SOUL.md", include_str!("../../templates/init/agents/helper/SOUL.md")),
    ("agents/editor/spec.yaml", include_str!("../../templates/init/agents/editor/spec.yaml")),
    ("tools/count_words.ts", include_str!("../../templates/init/tools/count_words.ts")),
    ("models/helper.yaml", include_str!("../../templates/init/models/helper.yaml")),
    ("models/editor.yaml", include_str!("../../templates/init/models/editor.yaml")),
    ("tests/helper.yaml", include_str!("../../templates/init/tests/helper.yaml")),
    // Last come the files that somebody may have already: a repository without them is as good a place.
    (TSCONFIG, include_str!("../../templates/init/tsconfig.json")),
    (GITIGNORE, include_str!("../../templates/init/gitignore")),
    (README, include_str!("../../templates/init/README.md")),
];

const TSCONFIG: &str = "tsconfig.json";
const GITIGNORE: &str = ".gitignore";
const README: &str = "README.md";

/// Makes a project.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let directory = args.directory.clone();
    let files = blocking(move || {
        if directory.join("weir.yaml").exists() {
            return Err(ScaffoldError::Project(directory));
        }
        let files = files(&directory);
        make(&directory, &files)?;
        // Without them nothing is lost but completion in editors; the next build writes them.
        let _ = schemas::write(&directory.join(".weir"));
        Ok(files)
    });
    let files = files.await??;
    if context.out.json {
        let files = files.into_iter().map(|file| file.path).collect();
        return context.out.document(&Document { directory: args.directory.clone(), files });
    }
    tell(&args.directory, &files, &mut context.out)
}

fn files(directory: &Path) -> Vec<NewFile> {
    let name = project_name(directory);
    let optional =
        |path: &str| [TSCONFIG, GITIGNORE, README].contains(&path) && directory.join(path).exists();
    let wanted = FILES.iter().filter(|(path, _)| !optional(path));
    wanted.map(|(path, text)| NewFile::from_template(*path, text, &[("name", &name)])).collect()
}

/// The directory's name as a project can have it.
fn project_name(directory: &Path) -> String {
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    // `a/..` has no name of its own; what it resolves to does.
    let absolute = absolute.canonicalize().unwrap_or(absolute);
    let name = absolute.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let fits = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
    let name: String = name.chars().map(fits).take(60).collect();
    let name = name.trim_matches('-').to_owned();
    if name.is_empty() { "project".to_owned() } else { name }
}

fn tell(directory: &Path, files: &[NewFile], out: &mut Out) -> Outcome {
    let shown = directory.display().to_string();
    out.line(format_args!("made a project in {}:", out.paint.bold(&printable(&shown))))?;
    for file in files {
        out.line(format_args!("  {}", file.path))?;
    }
    out.line(format_args!(""))?;
    out.line(format_args!("next:"))?;
    if directory != Path::new(".") {
        let place = if shown.starts_with('-') { format!("./{shown}") } else { shown };
        out.line(format_args!("  cd {}", shell(&place)))?;
    }
    for command in ["weir build", "weir chat helper", "weir test", "weir run"] {
        out.line(format_args!("  {}", out.paint.bold(command)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_called_like_its_directory() {
        let check = |directory: &str, expected: &str| {
            assert_eq!(project_name(Path::new(directory)), expected, "{directory}");
        };
        check("/x/My Agents", "my-agents");
        check("/x/--", "project");
        check("/x/Größe 2", "gr--e-2");
        check("/", "project");
    }
}
