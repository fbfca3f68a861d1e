//! Which running tasks share a core, cluster or last-level cache while another is idle.
