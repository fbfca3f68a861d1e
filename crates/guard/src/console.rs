//! Where the guard's lines for people go.

/// Standard output and standard error of the program that the guard runs in.
pub trait Console: Send + 'static {
    /// Prints on standard output.
    fn print(&mut self, text: &str);
    /// Prints a line on standard error.
    fn note(&mut self, line: &str);
}
