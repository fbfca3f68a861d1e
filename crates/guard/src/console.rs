//! Where the guard prints.

/// Standard output and standard error of the program. A reader that has exited, or a full disk, must not end
/// the guard, so nothing is returned.
pub trait Console: Send + 'static {
    /// Prints on standard output.
    fn print(&mut self, text: &str);
    /// Prints a line on standard error.
    fn note(&mut self, line: &str);
}
