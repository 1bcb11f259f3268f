//! The binary: hands the arguments to `cli` and its exit code to the system.

fn main() -> std::process::ExitCode {
    diskcanary::cli::main()
}
