//! Makes cargo notice a new migration: `sqlx::migrate!` reads the folder, and cargo would not look into it.

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
