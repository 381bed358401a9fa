import { openGcsEmulator, type GcsEmulator, type GcsEmulatorOptions } from './gcs-emulator.ts'

/** An emulator with the bucket `b`, and plain requests to it. For the emulator's own tests. */
export interface EmulatorUnderTest {
  emulator: GcsEmulator
  /** A request below the JSON API's root. */
  api: (path: string, init?: RequestInit) => Promise<Response>
  /** `uploadType=media`. */
  insert: (name: string, content: string, query?: Record<string, string>) => Promise<Response>
  /** `uploadType=multipart`. */
  insertRelated: (
    metadata: Record<string, unknown>,
    content: string,
    query?: Record<string, string>,
  ) => Promise<Response>
  /** Starts a session and gives its URL. */
  start: (metadata: Record<string, unknown>, query?: Record<string, string>) => Promise<Response>
  read: (name: string, headers?: Record<string, string>) => Promise<Response>
}

export async function openEmulatorUnderTest(options: GcsEmulatorOptions = {}): Promise<EmulatorUnderTest> {
  const emulator = await openGcsEmulator({ buckets: ['b'], ...options })
  const upload = (query: Record<string, string>, init: RequestInit): Promise<Response> =>
    fetch(`${emulator.url}/upload/storage/v1/b/b/o?${new URLSearchParams(query).toString()}`, {
      method: 'POST',
      ...init,
    })
  const api = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`${emulator.url}/storage/v1${path}`, init)
  return {
    emulator,
    api,
    insert: (name, content, query = {}) => upload({ uploadType: 'media', name, ...query }, { body: content }),
    insertRelated: (metadata, content, query = {}) => {
      const body = `--x\r\nContent-Type: application/json\r\n\r\n${JSON.stringify(metadata)}\r\n--x\r\nContent-Type: text/plain\r\n\r\n${content}\r\n--x--`
      const headers = { 'content-type': 'multipart/related; boundary=x' }
      return upload({ uploadType: 'multipart', ...query }, { body, headers })
    },
    start: (metadata, query = {}) => upload({ uploadType: 'resumable', ...query }, { body: JSON.stringify(metadata) }),
    read: (name, headers = {}) => api(`/b/b/o/${encodeURIComponent(name)}?alt=media`, { headers }),
  }
}
