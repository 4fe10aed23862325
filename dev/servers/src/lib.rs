//! Local servers.
