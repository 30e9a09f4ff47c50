//! What a user can type. Each command has examples, which the integration tests run as they stand.

use crate::session::{Common, Rows};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// The commands of a box's users.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Sign in to a box: it shows a code, and a person who is logged in there approves it.
    #[command(after_help = "Examples:\n  gleaner login https://box.example\n  \
        gleaner login https://box.example --profile work\n  \
        gleaner login https://box.example --profile robot --key-file robot.key\n\n\
        The credentials stand in $XDG_CONFIG_HOME/gleaner/credentials.toml, for nobody else to read.")]
    Login(Login),
    /// Forget a box, and delete the key there if the key itself may.
    #[command(after_help = "Examples:\n  gleaner logout --profile robot")]
    Logout(Plain),
    /// Say who one is, and in which organization.
    #[command(after_help = "Examples:\n  gleaner whoami\n  gleaner whoami --profile work --json")]
    Whoami(Plain),
    /// List the boxes that one is signed in to.
    #[command(after_help = "Examples:\n  gleaner profiles\n  gleaner profiles --use work")]
    Profiles(ProfilesCommand),
    /// Register URLs, and list them.
    #[command(arg_required_else_help = true)]
    Urls {
        #[command(flatten)]
        common: Common,
        #[command(subcommand)]
        command: UrlsCommand,
    },
    /// Collect pages now.
    #[command(
        after_help = "Examples:\n  gleaner collect $URL\n  gleaner collect $URL --page-type product --wait\n  \
        gleaner collect --from urls.txt --tag shop --wait --timeout 300 --json\n\n\
        With --wait it ends with 1 when a page failed, and with 6 when the time is over."
    )]
    Collect(Collect),
    /// See jobs, and take them up again or end them.
    #[command(arg_required_else_help = true)]
    Jobs {
        #[command(flatten)]
        common: Common,
        #[command(subcommand)]
        command: JobsCommand,
    },
    /// Find results; their values and their pages.
    #[command(arg_required_else_help = true)]
    Results {
        #[command(flatten)]
        common: Common,
        #[command(subcommand)]
        command: ResultsCommand,
    },
    /// Ask the organization's tables: one statement, a file, or at a prompt.
    #[command(
        after_help = "Examples:\n  gleaner sql 'SELECT domain, count(*) AS pages FROM jobs GROUP BY domain'\n  \
        gleaner sql --file report.sql --format csv --output report.csv\n  \
        gleaner sql 'SELECT id FROM jobs WHERE status = $1' --param succeeded --format json\n  \
        gleaner sql 'SELECT * FROM jobs' --format parquet --output jobs.parquet\n  \
        echo 'SELECT 1 AS one' | gleaner sql --json\n\n\
        Without a statement, at a terminal, it asks for statements: each ends with ';', Tab completes tables and columns, \\d lists\n\
        tables, \\d TABLE its columns, \\q leaves. A format that is a file of its own (parquet, arrow, xlsx) needs the permission\n\
        bi:write."
    )]
    Sql(Sql),
    /// See extraction schemas, and try selectors on a page that was collected.
    #[command(arg_required_else_help = true)]
    Schemas {
        #[command(flatten)]
        common: Common,
        #[command(subcommand)]
        command: SchemasCommand,
    },
    /// See schedules; fire them now, hold them and let them go on.
    #[command(arg_required_else_help = true)]
    Schedules {
        #[command(flatten)]
        common: Common,
        #[command(subcommand)]
        command: SchedulesCommand,
    },
    /// Any request of the API: the answer's body as it came.
    #[command(
        after_help = "Examples:\n  gleaner api GET /api/v1/plans/current\n  gleaner api GET 'jobs?limit=5'\n  \
        gleaner api POST urls --body new.json\n  \
        echo '{\"urls\": [\"https://shop.example/\"]}' | gleaner api POST urls --body -"
    )]
    Api(Api),
    /// What happened in the organization: the newest, or everything from now on.
    #[command(after_help = "Examples:\n  gleaner events --kind 'job.*' --limit 5\n  \
        gleaner events --follow --after 0 --kind job.succeeded --count 1 --json\n\n\
        Following goes on where it was after a connection broke, so nothing is missed and nothing comes twice.")]
    Events(Events),
    /// See outputs, and hand what they would send to a program on this machine.
    #[command(arg_required_else_help = true)]
    Outputs {
        #[command(flatten)]
        common: Common,
        #[command(subcommand)]
        command: OutputsCommand,
    },
}

/// A command without arguments of its own.
#[derive(Args, Debug)]
pub struct Plain {
    #[command(flatten)]
    pub common: Common,
}

#[derive(Args, Debug)]
pub struct Login {
    /// The address of the box, as in a browser.
    pub url: String,
    /// A file with an API key that there is already (or `-`), instead of asking for one.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Args, Debug)]
pub struct ProfilesCommand {
    /// Use this one from now on where none is named.
    #[arg(long = "use", value_name = "NAME")]
    pub chosen: Option<String>,
    /// Answer in JSON, an object a line. It has no keys in it.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum UrlsCommand {
    /// Register the URLs of a file: one a line, or CSV or NDJSON as the box reads them.
    #[command(after_help = "Examples:\n  gleaner urls add urls.txt --tag shop --tag daily\n  \
        gleaner urls add catalogue.csv --format csv\n  cat urls.txt | gleaner urls add -")]
    Add {
        /// The file; `-` is standard input.
        file: PathBuf,
        /// A tag of each; may be given several times.
        #[arg(long, value_name = "TAG")]
        tag: Vec<String>,
        /// What the file is. In `lines`, empty ones and those that begin with # are passed over.
        #[arg(long, value_enum, default_value_t = UrlFormat::Lines)]
        format: UrlFormat,
    },
    /// List URLs.
    #[command(after_help = "Examples:\n  gleaner urls list\n  gleaner urls list --tag shop --all --json")]
    List {
        /// Only those with this tag.
        #[arg(long)]
        tag: Option<String>,
        /// Only those of this registrable domain.
        #[arg(long)]
        domain: Option<String>,
        /// Only those in which this text is found.
        #[arg(long, value_name = "TEXT")]
        search: Option<String>,
        #[command(flatten)]
        rows: Rows,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UrlFormat {
    Lines,
    Csv,
    Ndjson,
}

#[derive(Args, Debug)]
pub struct Collect {
    /// Pages to collect.
    #[arg(required_unless_present = "from")]
    pub urls: Vec<String>,
    /// Those of a file as well, one a line; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// What kind of pages they are: product, article, job_posting …
    #[arg(long, value_name = "TYPE")]
    pub page_type: Option<String>,
    /// A tag of each job; may be given several times.
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// Render the pages in a browser.
    #[arg(long)]
    pub render: bool,
    /// Wait until all have ended; a bar on standard error says how far it is.
    #[arg(long)]
    pub wait: bool,
    /// Wait no longer than so many seconds.
    #[arg(long, value_name = "SECONDS", requires = "wait")]
    pub timeout: Option<u64>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Subcommand)]
pub enum JobsCommand {
    /// List jobs, the newest first.
    #[command(
        after_help = "Examples:\n  gleaner jobs list --status failed\n  gleaner jobs list --domain shop.example --all --json"
    )]
    List {
        /// queued, running, succeeded, failed or canceled.
        #[arg(long)]
        status: Option<String>,
        /// Only those of this registrable domain.
        #[arg(long)]
        domain: Option<String>,
        /// Only those with this tag.
        #[arg(long)]
        tag: Option<String>,
        /// Only those that failed with this error.
        #[arg(long)]
        error: Option<String>,
        #[command(flatten)]
        rows: Rows,
    },
    /// Show a job.
    #[command(after_help = "Examples:\n  gleaner jobs get $JOB\n  gleaner jobs get $JOB --json")]
    Get { id: String },
    /// Submit jobs that have ended once more.
    #[command(after_help = "Examples:\n  gleaner jobs retry $JOB")]
    Retry {
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// End jobs that have not ended.
    #[command(after_help = "Examples:\n  gleaner jobs cancel $WAITING")]
    Cancel {
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum ResultsCommand {
    /// Find results.
    #[command(
        after_help = "Examples:\n  gleaner results list\n  gleaner results list --search lamp --page-type product --json"
    )]
    List {
        /// Only those in which this is found.
        #[arg(long, value_name = "TEXT")]
        search: Option<String>,
        /// Only those of this registrable domain.
        #[arg(long)]
        domain: Option<String>,
        /// Only those of this page type.
        #[arg(long, value_name = "TYPE")]
        page_type: Option<String>,
        /// Only those with this tag.
        #[arg(long)]
        tag: Option<String>,
        #[command(flatten)]
        rows: Rows,
    },
    /// The values of a result, or its page.
    #[command(after_help = "Examples:\n  gleaner results get $RESULT\n  gleaner results get $JOB --json\n  \
        gleaner results get $RESULT --as markdown\n  gleaner results get $RESULT --as html --output page.html")]
    Get {
        /// The id of a result, or of a job that has one.
        id: String,
        /// What of it: the values, the content of the page, or the page as it was fetched.
        #[arg(long = "as", value_enum, default_value_t = ResultForm::Values)]
        form: ResultForm,
        /// Write it to this file instead of standard output.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResultForm {
    Values,
    Markdown,
    Text,
    Html,
}

#[derive(Args, Debug)]
pub struct Sql {
    /// The statement.
    #[arg(conflicts_with = "file")]
    pub statement: Option<String>,
    /// A file with the statement; `-` is standard input.
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The value of $1, then of $2 …: JSON where it is that (7, true, null, "7"), else a text.
    #[arg(long = "param", value_name = "VALUE")]
    pub params: Vec<String>,
    /// How the rows are written: table unless said otherwise, and jsonl with --json.
    #[arg(long, value_enum)]
    pub format: Option<RowFormat>,
    /// Write them to this file instead of standard output.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Wait no longer than so many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    Table,
    Csv,
    /// One document: an array of objects.
    Json,
    /// An object a line.
    Jsonl,
    Parquet,
    Arrow,
    Xlsx,
}

#[derive(Debug, Subcommand)]
pub enum SchemasCommand {
    /// List the schemas that the box has learned.
    #[command(
        after_help = "Examples:\n  gleaner schemas list\n  gleaner schemas list --domain shop.example --json"
    )]
    List {
        #[arg(long)]
        domain: Option<String>,
        #[arg(long, value_name = "TYPE")]
        page_type: Option<String>,
    },
    /// Try attributes on the newest page of a domain and a page type, or on a job's. Ends with 1 when one finds nothing.
    #[command(
        after_help = "Examples:\n  gleaner schemas test $DOMAIN product --attribute 'heading=//h1'\n  \
        gleaner schemas test $DOMAIN product --attributes attributes.json --job $JOB --json\n\n\
        The file has an array of attributes, such as [{\"name\": \"heading\", \"type\": \"text\", \"xpaths\": [\"//h1\"]}]."
    )]
    Test {
        domain: String,
        page_type: String,
        /// An attribute: NAME=XPATH or NAME:TYPE=XPATH. Types are text, number, url, boolean, text[] and url[].
        #[arg(long, value_name = "ATTRIBUTE", required_unless_present = "attributes")]
        attribute: Vec<String>,
        /// A file with attributes in JSON; `-` is standard input.
        #[arg(long, value_name = "FILE")]
        attributes: Option<PathBuf>,
        /// The job whose page is used.
        #[arg(long, value_name = "ID")]
        job: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum SchedulesCommand {
    /// List schedules.
    #[command(after_help = "Examples:\n  gleaner schedules list --json")]
    List {
        #[command(flatten)]
        rows: Rows,
    },
    /// Fire a schedule now.
    #[command(after_help = "Examples:\n  gleaner schedules trigger $SCHEDULE")]
    Trigger { id: String },
    /// Hold a schedule.
    #[command(after_help = "Examples:\n  gleaner schedules pause $SCHEDULE")]
    Pause { id: String },
    /// Let a schedule go on.
    #[command(after_help = "Examples:\n  gleaner schedules resume $SCHEDULE")]
    Resume { id: String },
}

#[derive(Args, Debug)]
pub struct Api {
    /// GET, POST, PUT, PATCH or DELETE.
    pub method: String,
    /// The path, with its query; what does not begin with / is under /api/v1/.
    pub path: String,
    /// A file with the body; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub body: Option<PathBuf>,
    /// What the body is.
    #[arg(long, value_name = "TYPE", default_value = "application/json", requires = "body")]
    pub content_type: String,
    /// Write the answer to this file instead of standard output.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Args, Debug)]
pub struct Events {
    /// Stay, and print what happens.
    #[arg(long)]
    pub follow: bool,
    /// Of these kinds, such as job.failed or 'job.*'; may be given several times.
    #[arg(long, value_name = "KIND")]
    pub kind: Vec<String>,
    /// With all of these tags.
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// Of this registrable domain.
    #[arg(long)]
    pub domain: Option<String>,
    /// Behind this place in the log; 0 is the oldest event that is kept.
    #[arg(long, value_name = "SEQ")]
    pub after: Option<u64>,
    /// At most so many of those that there are.
    #[arg(long, value_name = "N", default_value_t = 50, conflicts_with = "follow")]
    pub limit: usize,
    /// End after so many.
    #[arg(long, value_name = "N", requires = "follow")]
    pub count: Option<u64>,
    /// Follow no longer than so many seconds; then it ends with 6.
    #[arg(long, value_name = "SECONDS", requires = "follow")]
    pub timeout: Option<u64>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Subcommand)]
pub enum OutputsCommand {
    /// List outputs.
    #[command(after_help = "Examples:\n  gleaner outputs list")]
    List {
        #[command(flatten)]
        rows: Rows,
    },
    /// Send what an output lets through to an address of this machine, as its webhooks look: for whoever writes a receiver.
    #[command(after_help = "Examples:\n  \
        gleaner outputs listen $OUTPUT --forward-to http://127.0.0.1:3000/hook --after 0 --count 1\n  \
        gleaner outputs listen $OUTPUT --forward-to http://127.0.0.1:3000/hook --after 0 --count 1 --secret-file secret.txt\n\n\
        The output itself goes on as it does, and may be switched off. Each message is sent once, and a line says how it was\n\
        answered. With a secret (whsec_…) messages are signed as the box signs them.")]
    Listen {
        /// The id of the output.
        id: String,
        /// Where messages go.
        #[arg(long, value_name = "URL")]
        forward_to: String,
        /// A file with the secret that messages are signed with (or `-`); the variable GLEANER_WEBHOOK_SECRET has it as well.
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
        /// Behind this place in the log of events; 0 is the oldest that is kept. From now on, unless said otherwise.
        #[arg(long, value_name = "SEQ")]
        after: Option<u64>,
        /// End after so many messages.
        #[arg(long, value_name = "N")]
        count: Option<u64>,
        /// Listen no longer than so many seconds; then it ends with 6.
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u64>,
    },
}
