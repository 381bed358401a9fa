import { invalid } from './api-error.ts'

/**
 * Splits a `multipart/related` body into its JSON part and the stream of its media part.
 *
 * @see https://cloud.google.com/storage/docs/uploading-objects#rest-upload-objects
 */
export class RelatedBody {
  readonly #source: AsyncGenerator<Buffer>
  readonly #boundary: string
  #buffered: Buffer = Buffer.alloc(0)

  constructor(source: AsyncGenerator<Buffer>, contentType: string) {
    const boundary = /boundary=(?:"([^"]+)"|([^;\s]+))/.exec(contentType)
    if (boundary === null) throw invalid('Missing end boundary in multipart body.')
    this.#source = source
    this.#boundary = `--${boundary[1] ?? boundary[2] ?? ''}`
  }

  /** The first part, and the media part's type. */
  async head(): Promise<{ metadata: unknown; contentType: string | undefined }> {
    await this.#until(`${this.#boundary}\r\n`)
    await this.#until('\r\n\r\n')
    const metadata = await this.#until(`\r\n${this.#boundary}\r\n`)
    const headers = (await this.#until('\r\n\r\n')).toString()
    const contentType = /^content-type:\s*(.+?)\s*$/im.exec(headers)?.[1]
    try {
      return { metadata: JSON.parse(metadata.toString()), contentType }
    } catch {
      throw invalid('Parse Error')
    }
  }

  /** The second part. To be read after {@link head}. */
  async *media(): AsyncGenerator<Buffer> {
    const end = Buffer.from(`\r\n${this.#boundary}--`)
    for (;;) {
      const at = this.#buffered.indexOf(end)
      if (at >= 0) {
        yield this.#buffered.subarray(0, at)
        // Consumed to its end: only then is it known that the request was not cut.
        while ((await this.#source.next()).done !== true);
        return
      }
      const safe = Math.max(0, this.#buffered.length - end.length)
      if (safe > 0) yield this.#buffered.subarray(0, safe)
      this.#buffered = this.#buffered.subarray(safe)
      await this.#more()
    }
  }

  async #until(delimiter: string): Promise<Buffer> {
    for (;;) {
      const at = this.#buffered.indexOf(delimiter)
      if (at >= 0) {
        const part = this.#buffered.subarray(0, at)
        this.#buffered = this.#buffered.subarray(at + delimiter.length)
        return part
      }
      await this.#more()
    }
  }

  async #more(): Promise<void> {
    const next = await this.#source.next()
    if (next.done === true) throw invalid('Missing end boundary in multipart body.')
    this.#buffered = this.#buffered.length === 0 ? next.value : Buffer.concat([this.#buffered, next.value])
  }
}
