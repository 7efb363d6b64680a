/** Returns a text, or its first `maxLength` characters and `…` if it is longer. */
export function cutText(text: string, maxLength: number): string {
  // Do not end between the two halves of a surrogate pair.
  return text.length > maxLength ? `${text.slice(0, maxLength).replace(/[\ud800-\udbff]$/, '')}…` : text;
}
