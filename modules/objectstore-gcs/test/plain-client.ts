/** A client of the JSON API that is not the backend under test: plain fetch. */
export interface PlainClient {
  keys(): Promise<string[]>
  /** Undefined for a missing object. */
  get(name: string): Promise<Buffer | undefined>
  /** Stores bytes under any name at all. */
  plant(name: string, content: string | Uint8Array, query?: Record<string, string>): Promise<void>
  metadata(name: string): Promise<Record<string, unknown>>
}

export function plainClient(url: string, bucket: string, token?: string): PlainClient {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const objects = `${url}/storage/v1/b/${bucket}/o`
  return {
    keys: async () => {
      const names: string[] = []
      let pageToken: string | undefined
      do {
        const page = pageToken === undefined ? '' : `?pageToken=${encodeURIComponent(pageToken)}`
        const answer = check(await fetch(objects + page, { headers }))
        const body = (await answer.json()) as { items?: { name: string }[]; nextPageToken?: string }
        names.push(...(body.items ?? []).map(({ name }) => name))
        pageToken = body.nextPageToken
      } while (pageToken !== undefined)
      return names
    },
    get: async (name) => {
      const answer = await fetch(`${objects}/${encodeURIComponent(name)}?alt=media`, { headers })
      if (answer.status === 404) return undefined
      return Buffer.from(await check(answer).arrayBuffer())
    },
    plant: async (name, content, query = {}) => {
      const parameters = new URLSearchParams({ uploadType: 'media', name, ...query })
      const target = `${url}/upload/storage/v1/b/${bucket}/o?${parameters.toString()}`
      check(await fetch(target, { method: 'POST', body: content as string, headers }))
    },
    metadata: async (name) =>
      (await check(await fetch(`${objects}/${encodeURIComponent(name)}`, { headers })).json()) as Record<
        string,
        unknown
      >,
  }
}

function check(answer: Response): Response {
  if (!answer.ok) throw new Error(`the emulator answered ${answer.status}`)
  return answer
}
