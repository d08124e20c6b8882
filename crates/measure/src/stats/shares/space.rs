//! What a model can express: an orthonormal basis that grows column by column.

use super::Credit;

/// A column of which less than this is new adds nothing but rounding.
const NEW_SHARE: f64 = 1e-7;

/// The span of the columns so far.
#[derive(Debug, Clone)]
pub(super) struct Space {
    basis: Vec<Vec<f64>>,
}

impl Space {
    /// The span of one column.
    pub(super) fn new(column: &[f64]) -> Self {
        let mut space = Self { basis: Vec::new() };
        space.add(column);
        space
    }

    pub(super) fn dimensions(&self) -> usize {
        self.basis.len()
    }

    /// Takes in columns; answers what those after the first explain of `values`.
    pub(super) fn extend(&mut self, columns: &[Vec<f64>], values: &[f64]) -> Credit {
        let mut credit = Credit { squares: 0.0, df: 0 };
        for (place, column) in columns.iter().enumerate() {
            if self.add(column) && place > 0 {
                let new = self.basis.last().map_or(0.0, |new| dot(new, values));
                credit.squares += new * new;
                credit.df += 1;
            }
        }
        credit
    }

    /// The squares of what it leaves of `values`.
    pub(super) fn rest(&self, values: &[f64]) -> f64 {
        let rest = self.left_of(values);
        dot(&rest, &rest)
    }

    /// The squares of `values` along the first `dimensions`, along those after them, and along none.
    pub(super) fn squares(&self, values: &[f64], dimensions: usize) -> [f64; 3] {
        let along = |direction: &Vec<f64>| dot(direction, values).powi(2);
        let (first, later) = self.basis.split_at(dimensions);
        let [first, later]: [f64; 2] = [first.iter().map(along).sum(), later.iter().map(along).sum()];
        [first, later, (dot(values, values) - first - later).max(0.0)]
    }

    /// What it leaves of `values`.
    pub(super) fn left_of(&self, values: &[f64]) -> Vec<f64> {
        let mut left = values.to_vec();
        self.take_out(&mut left);
        left
    }

    /// Takes in a column; answers whether it was new.
    fn add(&mut self, column: &[f64]) -> bool {
        let whole = dot(column, column).sqrt();
        let mut rest = column.to_vec();
        // Twice is enough: Giraud, Langou, Rozložník & van den Eshof 2005, "Rounding error analysis of the classical
        // Gram-Schmidt orthogonalization process".
        self.take_out(&mut rest);
        self.take_out(&mut rest);
        let length = dot(&rest, &rest).sqrt();
        if whole <= 0.0 || length <= NEW_SHARE * whole {
            return false;
        }
        rest.iter_mut().for_each(|value| *value /= length);
        self.basis.push(rest);
        true
    }

    fn take_out(&self, values: &mut [f64]) {
        for direction in &self.basis {
            let along = dot(direction, values);
            values.iter_mut().zip(direction).for_each(|(value, direction)| *value -= along * direction);
        }
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}
