//! The command line: what an operator types, and the exit code it ends with.

use base::{Error, Result};
use clap::{CommandFactory, Parser, Subcommand};
use gleaner::admin;
use gleaner::admin::commands::AdminCommand;
use gleaner::app::{self, App, Renewed};
use gleaner::backups::{self, BackupArguments, RestoreArguments};
use gleaner::config::{Config, LogFormat};
use gleaner::log::level::ApplyFilter;
use gleaner::log::{self, Log};
use gleaner::mcp_stdio;
use gleaner::service_manager::{self, ServiceManager};
use gleaner::{demo, doctor, top, upgrade};
use server::Listeners;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

/// A web data collection appliance: collects pages, extracts typed values, searches them, answers SQL.
#[derive(Parser)]
#[command(name = "gleaner", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the appliance.
    Serve {
        /// The configuration; without it appliance.toml of this folder, else /etc/gleaner/appliance.toml, else the defaults.
        #[arg(long, short)]
        config: Option<PathBuf>,
        /// Begin a new, empty box although a key file or data of an earlier one is there and its store is not.
        #[arg(long)]
        new: bool,
    },
    /// Show the appliance at work on a small shop of its own; keeps nothing.
    Demo {
        /// End after the report instead of serving until Ctrl-C.
        #[arg(long)]
        once: bool,
    },
    /// Speak to the running appliance as its operator.
    Admin {
        /// The configuration of the running appliance, to find its data folder.
        #[arg(long, short)]
        config: Option<PathBuf>,
        /// The socket itself, instead of a configuration.
        #[arg(long)]
        socket: Option<PathBuf>,
        #[command(subcommand)]
        command: AdminCommand,
    },
    /// Check the data of an appliance: every file of its folder, the store with its indexes, that nothing is missing from the audit
    /// log. A look changes nothing. One that runs is asked itself, as far as that goes while it works.
    ///
    /// Ends with 0 when nothing is wrong, or all that was has been mended; with 1 when something is wrong; with 2 when it could not
    /// look (no box is there, a newer release has written it, it may not be opened).
    #[command(
        after_help = "Examples:\n  gleaner doctor\n  gleaner doctor --json --config /etc/gleaner/appliance.toml\n  gleaner doctor --repair"
    )]
    Doctor {
        /// The configuration of the appliance, to find its data folder.
        #[arg(long, short)]
        config: Option<PathBuf>,
        /// Mend what is made of something else (indexes, counts, search index, SQL tables, owners and modes), and remove what crashes
        /// have left. The box must be off.
        #[arg(long)]
        repair: bool,
        /// One object of JSON.
        #[arg(long)]
        json: bool,
    },
    /// Look ahead at an upgrade.
    #[command(arg_required_else_help = true)]
    Upgrade {
        #[command(subcommand)]
        command: UpgradeCommand,
    },
    /// Make a backup of an appliance, whether it runs or is off; list or verify backups.
    Backup(BackupArguments),
    /// Restore a backup into an empty data folder, of an appliance that is off; or one organization into one that runs.
    Restore(RestoreArguments),
    /// Let an agent on this machine use a box: the Model Context Protocol over standard input and output, passed on to the box.
    Mcp {
        /// The address of the box, as in a browser: else what GLEANER_URL says, else http://127.0.0.1:8420. Its API key is read from
        /// GLEANER_API_KEY.
        #[arg(long)]
        url: Option<String>,
        /// A file with the API key, instead of GLEANER_API_KEY.
        #[arg(long)]
        key_file: Option<PathBuf>,
    },
    /// Print the OpenAPI document of this release.
    Openapi,
    /// Check a configuration, or show what is in force.
    #[command(arg_required_else_help = true)]
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Print what a shell needs to complete the commands of this program.
    #[command(after_help = "Examples:\n  gleaner completions bash\n  gleaner completions zsh")]
    Completions { shell: clap_complete::Shell },
    /// Write the manual pages into a folder.
    #[command(hide = true, after_help = "Examples:\n  gleaner man man1")]
    Man { folder: PathBuf },
    #[command(flatten)]
    User(cli::UserCommand),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Say every fault of a configuration, with its place, its key and the reason. Ends with 1 when there is one.
    #[command(
        after_help = "Examples:\n  gleaner config check\n  gleaner config check --config appliance.toml --json"
    )]
    Check(ConfigPlace),
    /// Show what is in force, and where each value is from: default, file or environment. Secrets are hidden.
    #[command(
        after_help = "Examples:\n  gleaner config show\n  gleaner config show --config appliance.toml --json"
    )]
    Show(ConfigPlace),
}

#[derive(Subcommand)]
enum UpgradeCommand {
    /// Say what the first start of this program would change in a data folder, and about how long that takes on this machine. Changes
    /// nothing; the box must be off. A downgrade is a restore: from a backup that the older release has written.
    ///
    /// Ends with 0 when the folder opens with this program, with 1 when it does not, with 2 when it could not look.
    #[command(
        after_help = "Examples:\n  gleaner upgrade check\n  gleaner upgrade check --config appliance.toml --json"
    )]
    Check(ConfigPlace),
}

#[derive(clap::Args)]
struct ConfigPlace {
    /// The configuration; without it appliance.toml of this folder, else /etc/gleaner/appliance.toml, else the defaults.
    #[arg(long, short)]
    config: Option<PathBuf>,
    /// An object of JSON a line.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    // Before anything else: a worker has no environment, no log and no runtime of ours.
    if std::env::args_os().nth(1).is_some_and(|command| command == "sql-worker") {
        return sql::worker_main();
    }
    let command = match Arguments::parse().command {
        // A box's users have exit codes of their own, and need nothing of what a box does.
        Command::User(command) => return cli::run(command),
        command => command,
    };
    keep_few_arenas();
    // What looks and could not is told from what looked and found something.
    let failure = match &command {
        Command::Doctor { .. } | Command::Upgrade { .. } => ExitCode::from(doctor::EXIT_CANNOT),
        _ => ExitCode::FAILURE,
    };
    match run(command) {
        Ok(code) => code,
        Err(error) => {
            log::say(&mut io::stderr(), &format!("gleaner: {}", error.for_operator()));
            failure
        }
    }
}

/// Makes glibc keep two arenas instead of eight a core. Work here hops between threads (runtime, blocking pool, writer,
/// index), each thread frees what another allocated, and with sixteen arenas on two cores the memory of a box grew to
/// 454 MiB over 20,000 jobs, with two to 181 MiB, the store's page cache included (`cargo bench --bench soak`).
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)]
fn keep_few_arenas() {
    // SAFETY: mallopt(3) takes two integers and changes nothing but the allocator's own setting; it is called while
    // this process has one thread.
    let accepted = unsafe { libc::mallopt(libc::M_ARENA_MAX, 2) };
    if accepted == 0 {
        log::say(
            &mut io::stderr(),
            "gleaner: the allocator keeps its own number of arenas; memory use may grow",
        );
    }
}

#[cfg(not(target_env = "gnu"))]
fn keep_few_arenas() {}

/// What closing the store may take beyond the time that running requests and jobs get.
const STOP_MARGIN: Duration = Duration::from_secs(30);

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Mcp { url, key_file } => {
            let url = url.or_else(|| std::env::var("GLEANER_URL").ok());
            let url = url.unwrap_or_else(|| "http://127.0.0.1:8420".to_owned());
            runtime()?.block_on(mcp_stdio::run(mcp_stdio::Settings { url, key_file }))?;
        }
        Command::User(_) => {}
        Command::Config { command } => config(&command)?,
        Command::Completions { shell } => completions(shell)?,
        Command::Man { folder } => man(&folder)?,
        Command::Openapi => print(&format!("{}\n", server::openapi::document(&app::routes())))?,
        Command::Doctor { config, repair, json } => return examine(&load(config)?, repair, json),
        Command::Upgrade { command: UpgradeCommand::Check(place) } => {
            let plan = upgrade::check(&load(place.config)?)?;
            let text = if place.json { format!("{}\n", plan.json()) } else { plan.text() };
            print(&text)?;
            return Ok(if plan.opens() { ExitCode::SUCCESS } else { ExitCode::from(doctor::EXIT_FAULTS) });
        }
        Command::Serve { config, new } => serve(config, new)?,
        Command::Backup(arguments) => print_json(&backups::back_up(arguments, load, &runtime()?)?)?,
        Command::Restore(arguments) => print_json(&backups::restore(&arguments, load, &runtime()?)?)?,
        Command::Demo { once } => {
            let level = std::env::var("GLEANER_LOG__LEVEL").unwrap_or_else(|_| "warn".to_owned());
            let log = log_to_stderr(&level, LogFormat::Text)?;
            let ended = runtime()?.block_on(async { demo::run(once, interrupted()?).await });
            log.flush();
            ended?;
        }
        Command::Admin { config, socket, command } => {
            let socket = match socket {
                Some(socket) => socket,
                None => load(config)?.socket(),
            };
            let request = match command {
                AdminCommand::Top(shown) => {
                    return runtime()?.block_on(top::run(&socket, &shown)).map(|()| ExitCode::SUCCESS);
                }
                AdminCommand::Checkup => {
                    let found = runtime()?.block_on(admin::checkup(&socket))?;
                    print_json(&found["report"])?;
                    return Ok(of_report(&found["report"]));
                }
                AdminCommand::Ask(make) => make()?,
            };
            print_json(&runtime()?.block_on(admin::call(&socket, &request))?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The doctor over a box that is off, or by one that runs.
fn examine(config: &Config, repair: bool, json: bool) -> Result<ExitCode> {
    let socket = config.socket();
    if runtime()?.block_on(admin::is_answering(&socket)) {
        if repair {
            let reason = "the appliance runs; stop it first, nothing is mended under it";
            return Err(Error::unavailable(reason));
        }
        let found = runtime()?.block_on(admin::checkup(&socket))?;
        let text = found["text"].as_str().unwrap_or_default();
        print(&if json { format!("{}\n", found["report"]) } else { text.to_owned() })?;
        return Ok(of_report(&found["report"]));
    }
    let diagnosis = if repair { doctor::repair(config)? } else { doctor::examine(config)? };
    print(&if json { format!("{}\n", diagnosis.json()) } else { diagnosis.text() })?;
    Ok(ExitCode::from(if diagnosis.has_faults() { doctor::EXIT_FAULTS } else { doctor::EXIT_SOUND }))
}

/// How a look ends that a running box has made.
fn of_report(report: &serde_json::Value) -> ExitCode {
    let is_sound = report["isSound"] == true;
    ExitCode::from(if is_sound { doctor::EXIT_SOUND } else { doctor::EXIT_FAULTS })
}

/// Runs the box until it is told to end. `is_new`: a new, empty one, whatever there is of an earlier one.
fn serve(file: Option<PathBuf>, is_new: bool) -> Result<()> {
    let mut config = load(file.clone())?;
    config.storage.begin_anew = is_new;
    // While there is one thread: it changes the environment.
    let sockets = service_manager::sockets()?;
    let log = log_to_stderr(&config.log.level, config.log.format)?;
    let ended = runtime()?.block_on(async {
        let mut hangups = hangups()?;
        let mut stop = pin!(interrupted()?);
        let (manager, grace) = (ServiceManager::of_environment(), config.shutdown_grace());
        let sockets = sockets.map(Listeners::inherited).transpose();
        let sockets = sockets.map_err(|e| Error::unavailable(e.to_string()))?;
        let app = App::start_on(config, sockets).await?;
        manager.ready(app.url());
        for place in app.local_urls() {
            log::say(&mut io::stdout(), &format!("Gleaner listens at {place}"));
        }
        if !app.local_urls().iter().any(|place| place == app.url()) {
            log::say(&mut io::stdout(), &format!("People reach it at {}", app.url()));
        }
        let mut alive = pin!(manager.keep_alive());
        loop {
            tokio::select! {
                () = &mut stop => break,
                () = &mut alive => {}
                _ = hangups.recv() => reload(&app, file.clone()),
            }
        }
        manager.stopping(grace + STOP_MARGIN);
        tokio::select! {
            () = app.stop() => {}
            () = alive => {}
        }
        Ok::<_, Error>(())
    });
    log.flush();
    ended
}

fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "gleaner", &mut script);
    print(&String::from_utf8_lossy(&script))
}

fn man(folder: &Path) -> Result<()> {
    let failed = |e| Error::internal("write the manual pages", e);
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command(), folder).map_err(failed)
}

fn print(text: &str) -> Result<()> {
    log::print(text).map_err(|e| Error::internal("print the answer", e))
}

fn print_json(answer: &serde_json::Value) -> Result<()> {
    let text = serde_json::to_string_pretty(answer).map_err(|e| Error::internal("print the answer", e))?;
    print(&format!("{text}\n"))
}

/// Where a package of a distribution has the configuration of the box.
const INSTALLED_CONFIG: &str = "/etc/gleaner/appliance.toml";

fn load(given: Option<PathBuf>) -> Result<Config> {
    Config::load_here(file_of(given).as_deref())
}

/// The file that was named, else the usual one if it is there.
fn file_of(given: Option<PathBuf>) -> Option<PathBuf> {
    let usual = ["appliance.toml", INSTALLED_CONFIG].into_iter().map(PathBuf::from);
    given.or_else(|| usual.into_iter().find(|file| file.exists()))
}

fn config(command: &ConfigCommand) -> Result<()> {
    let line = |value: serde_json::Result<String>| value.map_err(|e| Error::internal("print the answer", e));
    let mut text = String::new();
    let faults = match command {
        ConfigCommand::Check(place) => {
            let file = file_of(place.config.clone());
            let faults = Config::faults_here(file.as_deref());
            if faults.is_empty() {
                // For a person, who may be in another folder than they think; what a program reads stays empty.
                let what = match file {
                    Some(file) => file.display().to_string(),
                    None => "the defaults and the environment (there is no file)".to_owned(),
                };
                log::say(&mut io::stderr(), &format!("gleaner: no fault in {what}"));
            }
            for fault in &faults {
                let told = if place.json { line(serde_json::to_string(fault))? } else { fault.to_string() };
                text.push_str(&format!("{told}\n"));
            }
            faults.len()
        }
        ConfigCommand::Show(place) => {
            for setting in Config::settings_here(file_of(place.config.clone()).as_deref())? {
                let told = match place.json {
                    true => line(serde_json::to_string(&setting))?,
                    false => format!("{} = {}  # {}", setting.key, setting.value, setting.origin),
                };
                text.push_str(&format!("{told}\n"));
            }
            0
        }
    };
    print(&text)?;
    match faults {
        0 => Ok(()),
        1 => Err(Error::conflict("the configuration has a fault")),
        faults => Err(Error::conflict(format!("the configuration has {faults} faults"))),
    }
}

/// After so many tasks a thread that is busy looks for what has come in. With tokio's 61 a small request waited until as many lists
/// of a millisecond each had been made for others (`cargo bench --bench neighbours -- lists`: p50 36 ms).
const EVENT_INTERVAL: u32 = 5;

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .event_interval(EVENT_INTERVAL)
        .enable_all()
        .build()
        .map_err(|e| Error::internal("start the runtime", e))
}

/// Resolves on SIGTERM or Ctrl-C; a second Ctrl-C ends the process at once.
fn interrupted() -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |e| Error::internal("listen for signals", e);
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tokio::spawn(async move {
            interrupt.recv().await;
            log::say(&mut io::stderr(), "gleaner: interrupted twice; ending at once");
            std::process::exit(130);
        });
    })
}

/// SIGHUP: service managers send it for "reload", and a terminal that is closed.
fn hangups() -> Result<tokio::signal::unix::Signal> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::hangup()).map_err(|e| Error::internal("listen for signals", e))
}

/// Reads configuration and certificates again, and takes the log's level and the certificates from them. What cannot be
/// read is said, and what was there stays. No connection ends.
fn reload(app: &App, file: Option<PathBuf>) {
    let fresh = match load(file) {
        Ok(fresh) => fresh,
        Err(error) => {
            tracing::error!(
                error = error.for_operator(),
                "SIGHUP: the configuration cannot be read; nothing is changed"
            );
            return;
        }
    };
    match log::level::configure(&fresh.log.level) {
        Ok(()) => tracing::info!(level = fresh.log.level, "SIGHUP: the log's level was read again"),
        Err(error) => {
            tracing::error!(error = error.for_operator(), "SIGHUP: the log's level stays as it was")
        }
    }
    match app.renew_certificates(&fresh) {
        Ok(Renewed::Yes) => {
            tracing::info!("SIGHUP: new connections are shown the certificates as they are now")
        }
        Ok(Renewed::NoneUsed) => {}
        Ok(Renewed::NeedsRestart { is_on }) => {
            let (now, wanted) = if is_on { ("on", "off") } else { ("off", "on") };
            tracing::warn!(
                "SIGHUP: TLS is {now} and stays so; switching it {wanted} (server.tls) needs a restart"
            );
        }
        Err(error) => {
            tracing::error!(error = error.for_operator(), "SIGHUP: the certificates stay as they were")
        }
    }
}

/// Sends the log to standard error; what is on its way is waited for with [`Log::flush`].
fn log_to_stderr(level: &str, format: LogFormat) -> Result<Log> {
    let lines = log::start().map_err(|e| Error::internal("start the log's thread", e))?;
    let log =
        tracing_subscriber::fmt().with_env_filter(log::level::filter(level)?).with_writer(lines.clone());
    // An error of the log's own would be printed with a macro that panics where standard error is broken.
    let log = log.log_internal_errors(false);
    let failed = |e| Error::internal("set the log's level", e);
    let apply: ApplyFilter = match format {
        LogFormat::Json => {
            let log = log.json().with_filter_reloading();
            let level = log.reload_handle();
            log.init();
            Box::new(move |filter| level.reload(filter).map_err(failed))
        }
        LogFormat::Text => {
            let log = log.with_ansi(io::stderr().is_terminal()).with_filter_reloading();
            let level = log.reload_handle();
            log.init();
            Box::new(move |filter| level.reload(filter).map_err(failed))
        }
    };
    log::level::install(level, apply);
    Ok(lines)
}
