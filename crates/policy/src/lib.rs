//! Who may do what, decided by Cedar. Pure: the same policies and the same request always give the same decision.

use cedar_policy as _;
