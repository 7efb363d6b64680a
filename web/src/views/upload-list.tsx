/** The files in the composer. */

import './uploads.css';
import { Paperclip, RotateCw, X } from 'lucide-preact';
import { useEffect, useState } from 'preact/hooks';
import { formatSize } from '../content/file-size.ts';
import {
  type Upload,
  forgetMissingFiles,
  getUploads,
  missingFiles,
  removeFile,
  sessionsAwaitingUploads,
  startUpload,
} from '../state/uploads.ts';
import { isThumbnailType } from '../state/thumbnails.ts';
import { Thumbnail } from './attachments.tsx';

function describeUpload({ status, error, file, progress }: Upload): string | undefined {
  const size = formatSize(file.size);
  if (status === 'failed') return error;
  return status === 'sending' && progress > 0 ? `${formatSize(file.size * progress)} of ${size}` : size;
}

export function UploadList({ sessionId }: { sessionId: string }) {
  const uploads = getUploads(sessionId);
  return (
    <>
      <MissingFiles sessionId={sessionId} />
      {uploads.length > 0 && <FileList sessionId={sessionId} uploads={uploads} />}
    </>
  );
}

/** Names the files that a reload has detached. Otherwise the user could send a message without its files. */
function MissingFiles({ sessionId }: { sessionId: string }) {
  const names = missingFiles(sessionId);
  if (names.length === 0) return null;
  return (
    <div class="notice warn small missing-files" role="status">
      <span>
        No longer attached here: {names.join(', ')}.{' '}
        {names.length === 1 ? 'Attach it again to send it.' : 'Attach them again to send them.'}
      </span>
      <button type="button" class="button quiet icon" aria-label="Close" onClick={() => forgetMissingFiles(sessionId)}>
        <X size={16} />
      </button>
    </div>
  );
}

/** The thumbnail of an image; a paper clip for other files. */
function FileIcon({ file }: { file: File }) {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    if (!isThumbnailType(file.type)) return undefined;
    const created = URL.createObjectURL(file);
    setUrl(created);
    return () => URL.revokeObjectURL(created);
  }, [file]);
  if (isThumbnailType(file.type)) return url === undefined ? <span class="thumbnail" /> : <Thumbnail url={url} />;
  return <Paperclip size={15} />;
}

function FileList({ sessionId, uploads }: { sessionId: string; uploads: Upload[] }) {
  return (
    <>
      <ul role="list" class="uploads" aria-label="Files to send">
        {uploads.map((upload) => (
          <li key={upload.id} data-state={upload.status}>
            <FileIcon file={upload.file} />
            <span class="ellipsis">{upload.file.name}</span>
            <span class="muted small">{describeUpload(upload)}</span>
            {upload.status === 'sending' && <progress value={upload.progress} max={1} aria-label={`Uploading ${upload.file.name}`} />}
            {upload.status === 'failed' && !upload.isTooLarge && (
              <button
                type="button"
                class="button quiet icon"
                aria-label={`Retry ${upload.file.name}`}
                onClick={() => void startUpload(sessionId, upload)}
              >
                <RotateCw size={16} />
              </button>
            )}
            <button
              type="button"
              class="button quiet icon"
              aria-label={`Remove ${upload.file.name}`}
              onClick={() => removeFile(sessionId, upload)}
            >
              <X size={16} />
            </button>
          </li>
        ))}
      </ul>
      {sessionsAwaitingUploads.value.has(sessionId) && (
        <p class="muted small sends-itself" role="status">
          The message is sent when its files are uploaded.
        </p>
      )}
      {uploads.some(({ status }) => status === 'failed') && (
        <p class="notice danger" role="alert">
          {uploads.some(({ isTooLarge }) => isTooLarge)
            ? 'A file is too large. Remove it to send the message.'
            : 'A file could not be uploaded. Retry or remove it to send the message.'}
        </p>
      )}
    </>
  );
}
