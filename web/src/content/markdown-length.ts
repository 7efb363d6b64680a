/** The limit on the length of a markdown text. In a module of its own, because the renderer is loaded later. */

/** Limit on a text in characters, without embedded images. */
const MAX_LENGTH = 100_000;

export const EMBEDDED_IMAGE = /data:image\/[\w.+-]+;base64,[A-Za-z0-9+/=]{200,}/g;

/** Whether a text exceeds {@link MAX_LENGTH}, so that it must be shown as plain text. */
export function isTooLongForMarkdown(text: string): boolean {
  return text.length > MAX_LENGTH && text.replace(EMBEDDED_IMAGE, '').length > MAX_LENGTH;
}
