# An image that trains and translates, for GPUs; smaller, for CPUs alone, with the index of torch's CPU wheels:
#
#   docker build --tag pairgan .
#   docker build --tag pairgan:cpu --build-arg TORCH_INDEX=URL .
#
# Untested: no daemon was there to build it. docs/jobs.md has the command that trains with it.
ARG PYTHON=3.13
FROM python:${PYTHON}-slim

ARG TORCH_INDEX=""
ARG EXTRAS="train"
WORKDIR /pairgan
COPY pyproject.toml constraints.txt README.md LICENSE pairgan.py ./
RUN if [ -n "$TORCH_INDEX" ]; then \
        pip install --no-cache-dir --constraint constraints.txt --index-url "$TORCH_INDEX" torch torchvision; \
    fi \
    && pip install --no-cache-dir --constraint constraints.txt ".[$EXTRAS]"
COPY . .

# also for a user that `docker run --user` names: these are the folders that it may write to
RUN useradd --create-home --uid 1000 pairgan && mkdir runs results && chmod 1777 runs results /home/pairgan
ENV HOME=/home/pairgan
USER 1000
EXPOSE 8000
CMD ["python", "train.py", "--help"]
