//! `/api/inbox`: what waits for a person.

use super::extract::RoutedRequest;
use super::response::{JsonText, Reply};
use crate::hub::core::error::Error;
use crate::hub::core::sessions::inbox::InboxRequest;
use crate::hub::sessions::list::Page;

const MAX_PAGE_ITEMS: u64 = 200;
/// The items of a page without `limit`.
const DEFAULT_PAGE_ITEMS: usize = 50;

/// `GET /api/inbox?limit=N&cursor=TEXT`.
pub async fn list(request: RoutedRequest) -> Reply {
    let query = request.query()?;
    let limit = query.number("limit", 1..=MAX_PAGE_ITEMS)?;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(DEFAULT_PAGE_ITEMS);
    let after = match query.text("cursor")? {
        None => InboxRequest::BEGINNING,
        Some(cursor) => InboxRequest::parse_cursor(cursor).ok_or_else(|| {
            Error::field("cursor", "Query parameter `cursor` must be the `nextCursor` of an earlier response.")
        })?,
    };
    let page = request.hub.read_page(Page::Inbox(&InboxRequest { after, limit })).await?;
    Ok(JsonText::of(&*page))
}
