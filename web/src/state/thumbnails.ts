/** Images that were attached to messages, as object URLs for thumbnails. */

import type { Attachment, Session } from '../api/types.ts';

/** Larger images are shown by their names: the CLI would send them as base64 JSON. */
export const MAX_THUMBNAIL_BYTES = 4 * 1024 * 1024;
/** Limit on the images in memory. The oldest are loaded again when they come into view. */
const MAX_IMAGES = 24;

/** The types that browsers show and that contain no scripts. */
const TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif'];
export const isThumbnailType = (mimeType: string): boolean => TYPES.includes(mimeType);

/** The object URLs by session and path, oldest first. */
const urls = new Map<string, string>();
const keyOf = (sessionId: string, path: string) => `${sessionId} ${path}`;

export const getThumbnail = (sessionId: string, path: string): string | undefined => urls.get(keyOf(sessionId, path));

/** Keeps an image that this page has sent. Returns its object URL. */
export function keepThumbnail(sessionId: string, path: string, image: Blob): string {
  const key = keyOf(sessionId, path);
  const known = urls.get(key);
  if (known !== undefined) return known;
  const url = URL.createObjectURL(image);
  urls.set(key, url);
  for (const [oldest, oldUrl] of urls) {
    if (urls.size <= MAX_IMAGES) break;
    URL.revokeObjectURL(oldUrl);
    urls.delete(oldest);
  }
  return url;
}

/** Returns the path by which the CLI can read an attached file, relative to the session's directory, or null. Every CLI reads the session's directory, some also uploads. */
export function readablePath({ path }: Attachment, metadata: Session['metadata']): string | null {
  if (metadata === null) return null;
  const folder = `${metadata.path}/`;
  if (path.startsWith(folder)) return path.slice(folder.length);
  return metadata.uploadsPath === undefined ? null : `${metadata.uploadsPath}/${path.split(/[/\\]/).pop()}`;
}

/** Loads an image from the session's machine. Rejects if the CLI cannot read the file. */
export async function loadThumbnail(sessionId: string, { path, mimeType }: Attachment, readPath: string): Promise<string> {
  const known = getThumbnail(sessionId, path);
  if (known !== undefined) return known;
  // The first load needs no other function of this module.
  const { fetchFile } = await import('./workspace.ts');
  return keepThumbnail(sessionId, path, new Blob([await fetchFile(sessionId, readPath)], { type: mimeType }));
}
