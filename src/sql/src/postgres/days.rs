//! Days since 1970 as dates, also those that no library's calendar has.

/// The year, the month and the day of the month of a day since 1970, by years that begin in March, in eras of 400 of them.
pub(crate) fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// The first day of a month, in days since 1970.
pub(super) fn first_day(year: i64, month: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let months = (month + 9) % 12;
    let day = (153 * months + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day - 719_468
}
