//! What the operator does with the platform's schemas (`gleaner admin schema`).

use super::schemas::{export_schemas, import_schemas};
use crate::features::wiring::commands::{Commands, Operation, OperationSpec, Request, Typed, told};
use base::{Error, Result};
use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use server::Services;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const COMMANDS: Commands = Commands::of::<ExtractionCommand>(&[
    OperationSpec::of::<SchemaImport>(),
    OperationSpec::of::<SchemaExport>(),
]);

#[derive(Subcommand)]
enum ExtractionCommand {
    /// Manage platform extraction schemas.
    #[command(subcommand, display_order = 10)]
    Schema(SchemaCommand),
}

#[derive(Subcommand)]
enum SchemaCommand {
    /// Import the schemas of a JSON file ("-" reads standard input).
    Import {
        /// The JSON file; "-" is standard input.
        file: PathBuf,
        /// The domain of schemas that name none.
        #[arg(long)]
        domain: Option<String>,
    },
    /// Print all schemas as a file that can be imported.
    Export,
}

impl Typed for ExtractionCommand {
    fn request(self) -> Result<Request> {
        let ExtractionCommand::Schema(command) = self;
        match command {
            SchemaCommand::Export => Request::of(&SchemaExport {}),
            SchemaCommand::Import { file, domain } => {
                Request::of(&SchemaImport { json: text_of(&file)?, domain })
            }
        }
    }
}

fn text_of(file: &Path) -> Result<String> {
    let failed =
        |e: std::io::Error| Error::invalid(&file.display().to_string(), format!("cannot be read: {e}"));
    if file.as_os_str() != "-" {
        return std::fs::read_to_string(file).map_err(failed);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

#[derive(Debug, Serialize, Deserialize)]
struct SchemaImport {
    json: String,
    domain: Option<String>,
}

impl Operation for SchemaImport {
    const NAME: &'static str = "schema_import";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        told(import_schemas(services.system(), &self.json, self.domain.as_deref()).await?)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct SchemaExport {}

impl Operation for SchemaExport {
    const NAME: &'static str = "schema_export";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        export_schemas(services.system())
    }
}
