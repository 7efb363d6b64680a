//! `POST /api/sessions/:id/upload` and `.../upload/delete`.

use serde::Deserialize;

use super::extract::RoutedRequest;
use super::response::{JsonText, Reply};

#[derive(Deserialize)]
pub struct DeleteUploadBody {
    /// The path that the upload returned.
    path: String,
}

/// `POST /api/sessions/:id/upload`: returns the unchanged response of the CLI.
pub async fn upload(request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body = request.upload_body()?;
    Ok(JsonText::of(request.hub.upload(&id, &*body).await?))
}

/// `POST /api/sessions/:id/upload/delete`: returns the unchanged response of the CLI.
pub async fn delete(mut request: RoutedRequest) -> Reply {
    let id = request.load_session().await?;
    let body: DeleteUploadBody = request.take_json()?;
    Ok(JsonText::of(request.hub.delete_upload(&id, &body.path).await?))
}
