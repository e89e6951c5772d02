//! Ranking: the leaderboard of one task in one device class.
