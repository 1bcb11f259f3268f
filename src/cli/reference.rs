//! `docs/commands.md`, made from what `--help` says.

use std::fmt::Write;

use clap::CommandFactory;

use super::Cli;

const HEAD: &str = "\
# Commands

This page is made from the source (`src/cli`); a test holds it so.

Exit codes: 0 when all is well, 2 for a bad config or wrong usage (nothing was touched then), 1 for anything else. Results
go to standard output, everything else to standard error.
";

/// The reference of all commands as Markdown.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    let mut cli = Cli::command().term_width(100).disable_help_subcommand(true);
    cli.build();
    section(&mut page, "diskcanary", &mut cli);
    let names: Vec<String> = cli.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names {
        if let Some(command) = cli.find_subcommand_mut(&name) {
            section(&mut page, &format!("diskcanary {name}"), command);
        }
    }
    page
}

fn section(page: &mut String, title: &str, command: &mut clap::Command) {
    let help = command.render_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {title}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
}
