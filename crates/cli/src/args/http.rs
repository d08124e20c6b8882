//! What may be typed of the page that shows what a volume does.

use clap::Args as ClapArgs;
use evenkeel_host::service::http::HttpOptions;

use super::places::parse_host_port;

/// Where the page is, and who may see it.
#[derive(Debug, Clone, PartialEq, ClapArgs)]
pub(crate) struct HttpArgs {
    /// A page at http://HOST:PORT/ that shows what the volume does, for browsers; the same as JSON at /status.json and
    /// /history.json, and as /metrics. Nothing can be changed through it. HOST is of this machine alone, such as 127.0.0.1,
    /// unless --http-public says otherwise
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_host_port)]
    pub(crate) http: Option<String>,

    /// Let other machines see the page: whoever reaches the port reads it, with the names of files and devices, and it is not
    /// encrypted
    #[arg(long, requires = "http")]
    pub(crate) http_public: bool,

    /// A name of this machine by which browsers may ask for the page, beside its addresses and localhost; repeatable. Any other
    /// is refused, so that no page of the web can have a browser read this one
    #[arg(long, value_name = "NAME", requires = "http")]
    pub(crate) http_name: Vec<String>,
}

impl HttpArgs {
    /// What the server is told.
    pub(crate) fn options(&self) -> Option<HttpOptions> {
        let address = self.http.clone()?;
        Some(HttpOptions { address, is_public: self.http_public, names: self.http_name.clone() })
    }
}
