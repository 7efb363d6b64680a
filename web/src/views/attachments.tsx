/** The attachments of a message: thumbnails of images, and the names of other files. */

import { Paperclip } from 'lucide-preact';
import { useEffect, useState } from 'preact/hooks';
import type { Attachment, Session } from '../api/types.ts';
import { formatSize } from '../content/file-size.ts';
import { getThumbnail, isThumbnailType, loadThumbnail, MAX_THUMBNAIL_BYTES, readablePath } from '../state/thumbnails.ts';

interface Props {
  attachments: Attachment[];
  sessionId: string;
  metadata: Session['metadata'];
  /** Whether the session's CLI is connected. */
  isActive: boolean;
}

export function Attachments({ attachments, ...session }: Props) {
  return (
    <ul role="list" class="attachments" aria-label="Attachments">
      {attachments.map((attachment) => (
        <li key={attachment.id} class="chip">
          <SentThumbnail attachment={attachment} {...session} />
          <span class="ellipsis">{attachment.filename}</span> <span>{formatSize(attachment.size)}</span>
        </li>
      ))}
    </ul>
  );
}

/** Shows an image if this page has sent it, or if the CLI can read it from its machine. Otherwise, shows a paper clip. */
function SentThumbnail({ attachment, sessionId, metadata, isActive }: Omit<Props, 'attachments'> & { attachment: Attachment }) {
  const { path, mimeType, size } = attachment;
  const [url, setUrl] = useState(getThumbnail(sessionId, path));
  const readPath = isActive ? readablePath(attachment, metadata) : null;
  const canLoad = isThumbnailType(mimeType) && size <= MAX_THUMBNAIL_BYTES && (url !== undefined || readPath !== null);
  const [isFailed, setFailed] = useState(false);
  useEffect(() => {
    if (!canLoad || url !== undefined || readPath === null) return undefined;
    let isMounted = true;
    loadThumbnail(sessionId, attachment, readPath).then(
      (loaded) => isMounted && setUrl(loaded),
      () => isMounted && setFailed(true),
    );
    return () => {
      isMounted = false;
    };
  }, [canLoad, url, sessionId, readPath]);
  if (!canLoad || isFailed) return <Paperclip size={13} />;
  // The place is reserved while the image is loaded.
  return url === undefined ? <span class="thumbnail skeleton" /> : <Thumbnail url={url} onError={() => setFailed(true)} />;
}

/** The name of the file is beside the image. */
export function Thumbnail({ url, onError }: { url: string; onError?: () => void }) {
  return <img class="thumbnail" src={url} alt="" {...(onError ? { onError } : {})} />;
}
