//! The one source of chance: everything random in a run comes from its seed.

/// Random numbers of a seed (SplitMix64).
pub struct Dice(u64);

impl Dice {
    pub fn of(seed: u64) -> Self {
        // Neighbouring seeds have nothing in common.
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
        dice.roll();
        dice
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.roll() % n as u64) as usize
    }

    /// A number of a range, its end included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.roll() % (most - least + 1)
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.roll() % 100 < percent
    }

    /// One of some things; none when there are none.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() { None } else { Some(of[self.below(of.len())].clone()) }
    }

    /// One of some things, each as likely as its weight says.
    pub fn weighted<T: Copy>(&mut self, of: &[(u64, T)]) -> T {
        let mut rest = self.roll() % of.iter().map(|(weight, _)| weight).sum::<u64>();
        for (weight, thing) in of {
            if rest < *weight {
                return *thing;
            }
            rest -= weight;
        }
        of[0].1
    }
}
