//! The tables, for local use. On AWS the template makes them; both must say the same.

use aws_sdk_dynamodb::{
    operation::create_table::{CreateTableError, builders::CreateTableFluentBuilder},
    types::{
        AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
        ScalarAttributeType, StreamSpecification, StreamViewType, TimeToLiveSpecification,
    },
};

use super::{Database, codec::BadItem, keys};
use crate::ports::Fault;

const OPERATION: &str = "create tables";

impl Database {
    /// Makes both tables where they are not there yet.
    ///
    /// # Errors
    /// When the server refuses or does not answer.
    pub async fn create_tables(&self) -> Result<(), Fault> {
        let failed = |cause: BadItem| Fault::not_applied(OPERATION, cause);
        let stream = StreamSpecification::builder().stream_enabled(true);
        let stream = stream.stream_view_type(StreamViewType::NewAndOldImages).build().map_err(BadItem::from);
        let request = self.keyed(&self.tables.table, &[keys::PK, keys::SK, keys::HOME, keys::DUE]).map_err(failed)?;
        let request = request.global_secondary_indexes(home_index().map_err(failed)?);
        if create(request.stream_specification(stream.map_err(failed)?)).await? {
            let ttl = TimeToLiveSpecification::builder().enabled(true).attribute_name(keys::EXPIRES_AT).build();
            let ttl = ttl.map_err(BadItem::from).map_err(failed)?;
            let request = self.client.update_time_to_live().table_name(&self.tables.table);
            let set = request.time_to_live_specification(ttl).send().await;
            set.map_err(|error| Fault::maybe_applied(OPERATION, error))?;
        }
        create(self.keyed(&self.tables.audit_table, &[keys::PK, keys::SK]).map_err(failed)?).await?;
        Ok(())
    }

    /// A table on demand with the key `pk`, `sk`. All attributes that keys name are texts.
    fn keyed(&self, table: &str, attributes: &[&str]) -> Result<CreateTableFluentBuilder, BadItem> {
        let request = self.client.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
        let request = request.set_key_schema(Some(key_schema(keys::PK, keys::SK)?));
        attributes.iter().try_fold(request, |request, name| {
            let attribute = AttributeDefinition::builder().attribute_name(*name);
            Ok(request.attribute_definitions(attribute.attribute_type(ScalarAttributeType::S).build()?))
        })
    }
}

/// Creates a table; answers whether it was not there.
async fn create(request: CreateTableFluentBuilder) -> Result<bool, Fault> {
    match request.send().await {
        Ok(_) => Ok(true),
        Err(error) if error.as_service_error().is_some_and(CreateTableError::is_resource_in_use_exception) => Ok(false),
        Err(error) => Err(Fault::maybe_applied(OPERATION, error)),
    }
}

fn home_index() -> Result<GlobalSecondaryIndex, BadItem> {
    let index = GlobalSecondaryIndex::builder().index_name(keys::HOME_INDEX);
    let index = index.set_key_schema(Some(key_schema(keys::HOME, keys::DUE)?));
    let keys_only = Projection::builder().projection_type(ProjectionType::KeysOnly).build();
    Ok(index.projection(keys_only).build()?)
}

fn key_schema(hash: &str, range: &str) -> Result<Vec<KeySchemaElement>, BadItem> {
    let element = |name: &str, key_type| KeySchemaElement::builder().attribute_name(name).key_type(key_type).build();
    Ok(vec![element(hash, KeyType::Hash)?, element(range, KeyType::Range)?])
}
