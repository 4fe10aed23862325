//! Holdfast: flash-sale ordering.
