//! Curves through the measured points.
