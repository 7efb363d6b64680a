/**
 * Returns the pasted files. Returns none if the text should be pasted instead: a spreadsheet or a document adds a picture of its text.
 */
export function pastedFiles(data: Pick<DataTransfer, 'files' | 'getData'> | null): File[] {
  const isFormattedText = data?.getData('text/html') && data.getData('text/plain').trim();
  return isFormattedText ? [] : [...(data?.files ?? [])];
}
