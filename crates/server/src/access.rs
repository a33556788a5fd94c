//! What someone sees: their own sessions, streams, blobs and approvals. Those of others do not exist, as far as they can tell.
